"""The shared watcher of the cluster, and its queries."""
