"""The way from a person's options to a job of Slurm."""
