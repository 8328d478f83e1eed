"""The catalog as people see it: tiles, preferences, software and benchmarks."""
