"""Catalog as users see it: tiles, preferences, software and benchmarks."""
