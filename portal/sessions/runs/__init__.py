"""Runs: the reports of their points, the order of these, and what is left to say at their end."""
