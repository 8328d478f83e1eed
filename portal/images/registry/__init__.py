"""Registries: their answers, how they are reached, and with which passwords."""
