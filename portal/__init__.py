"""The Data Scientist Portal: JupyterHub sessions on Slurm GPU clusters, in containers."""

__version__ = "0.1.0"
