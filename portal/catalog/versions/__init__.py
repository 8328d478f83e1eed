"""Versions of environments: edited, published, compared, and kept in step with git."""
