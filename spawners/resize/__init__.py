"""Other resources for a running session: a second job takes its place."""
