"""A course itself: its rules, its sources, when it meets, and whether it can be held."""
