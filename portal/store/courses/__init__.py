"""The tables of courses."""
