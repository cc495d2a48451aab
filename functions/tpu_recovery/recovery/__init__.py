"""Deciding and recovering: the pure decision table, and the look that feeds it and carries it out."""
