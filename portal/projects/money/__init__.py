"""Money of projects: budgets, limits of Slurm, usage."""
