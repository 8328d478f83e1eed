"""Changes to the cluster: jobs, nodes and reservations."""
