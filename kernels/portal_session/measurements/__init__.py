"""Measurements in a session: memory, GPUs, programs."""
