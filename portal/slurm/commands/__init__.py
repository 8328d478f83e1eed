"""Slurm's commands: their runner, the queries, and their errors."""
