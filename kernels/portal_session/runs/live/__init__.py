"""Live view of a point: its output as text while its user looks at it, and a kernel that is
kept."""
