"""Kept clusters: the scheduler runs in a job of its own, and outlives kernel and session."""
