"""The cluster by the API: nodes, GPUs, jobs, their history and usage."""
