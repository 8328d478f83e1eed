"""Definition of a course: its rules, sources and calendar, and whether it can be held."""
