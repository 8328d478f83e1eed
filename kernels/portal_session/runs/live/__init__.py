"""Live view of a point: its output as text while somebody looks, and a kernel that is kept."""
