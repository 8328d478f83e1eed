"""Parts of the demo's environments."""
