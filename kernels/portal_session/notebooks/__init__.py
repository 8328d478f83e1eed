"""Cells and notebooks: outputs are kept when no page is open."""
