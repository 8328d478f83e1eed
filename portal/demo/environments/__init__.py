"""What the demo's environments are made of."""
