"""Registries: what they answer, how they are reached, and with which passwords."""
