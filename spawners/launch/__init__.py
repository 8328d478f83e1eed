"""From what a person asks for to a job of Slurm."""
