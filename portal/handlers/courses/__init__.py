"""Course endpoints."""
