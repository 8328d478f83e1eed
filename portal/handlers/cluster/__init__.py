"""Cluster endpoints: nodes, GPUs, jobs, their history and usage."""
