"""Search for pages, actions and objects by name."""
