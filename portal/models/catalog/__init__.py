"""Environments and images."""
