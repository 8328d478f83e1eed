"""Slurm's commands: run, asked, and what they complain about."""
