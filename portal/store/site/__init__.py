"""The tables of the whole site: announcements, the audit log, the cluster over time."""
