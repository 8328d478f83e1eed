"""Generator of the pictures of the documentation, from the running demo (`make pictures`)."""
