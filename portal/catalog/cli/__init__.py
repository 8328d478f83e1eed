"""Commands of admins for environments and images."""
