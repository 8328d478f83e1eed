"""Execution of one point in its job: the notebook or script, its files, its reports."""
