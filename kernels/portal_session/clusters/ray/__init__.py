"""Ray clusters of a notebook."""
