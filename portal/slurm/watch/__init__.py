"""The shared watcher of the cluster, and what it asks for."""
