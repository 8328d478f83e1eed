"""Definitions of environments: YAML with line numbers, its rules, reading and writing."""
