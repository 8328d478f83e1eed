"""Members of a course, and their accounts."""
