"""The cluster: what Slurm says, and what the dashboard makes of it."""
