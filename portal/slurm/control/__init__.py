"""What the portal changes in the cluster: jobs, nodes and reservations."""
