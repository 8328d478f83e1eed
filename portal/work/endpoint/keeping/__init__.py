"""Keeping of endpoints: what is there, what should be, and the loop between the two."""
