"""The commands of admins about environments and images."""
