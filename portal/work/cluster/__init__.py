"""Clusters from a notebook: workers in jobs, as many as it wants (portal_session/clusters)."""
