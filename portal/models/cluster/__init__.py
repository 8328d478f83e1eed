"""Cluster data: Slurm's own, and what the dashboard makes of it."""
