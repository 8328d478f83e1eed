"""Features of a course's session: handouts, collecting, grades, guests, rooms."""
