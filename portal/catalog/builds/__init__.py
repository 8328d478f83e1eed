"""Images are built and environments tested in jobs of Slurm."""
