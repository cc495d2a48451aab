"""The whole thing on one machine: servers that the real clients talk to, and the demo. Never deployed."""
