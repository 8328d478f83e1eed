"""What a course's session does: handouts, collecting, grades, guests, a room."""
