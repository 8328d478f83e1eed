"""The work of a course's session: handouts, collecting, grades, guests, a room."""
