"""Measurements in a session: memory, GPUs, processes, benchmarks."""
