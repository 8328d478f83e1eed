"""A program that opens instead of JupyterLab."""
