"""People of a course, and their accounts."""
