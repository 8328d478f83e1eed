"""Pages of the service, and their rendering."""
