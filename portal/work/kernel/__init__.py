"""Kernels in jobs of their own."""
