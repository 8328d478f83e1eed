"""Steps from a person's options to a Slurm job."""
