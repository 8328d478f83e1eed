"""Catalog endpoints: environments, their versions, builds and tests."""
