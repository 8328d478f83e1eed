"""Image builds and environment tests, run as Slurm jobs."""
