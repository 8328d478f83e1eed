"""What the catalog shows: tiles, preferences, software and benchmarks."""
