"""Console script portal-run: its commands and what they print."""
