"""Ranks of a run's script: processes on one or several nodes, which srun starts and which work
together. Rank 0 executes the point; it checks the others, follows them, and reports."""
