"""Benchmarks: results of shipped scripts at this site, and GPUs by their data sheets."""
