"""Programs of workers' jobs, each a file for itself."""
