"""Limits of a launch: those of environment, partition and QOS, and of what runs already."""
