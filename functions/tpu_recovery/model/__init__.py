"""Plain data: what the user wants, what we know, what happened. Imports nothing of ours but errors."""
