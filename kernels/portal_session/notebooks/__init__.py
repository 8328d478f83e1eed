"""Cells and notebooks: what was printed is kept when nobody looks."""
