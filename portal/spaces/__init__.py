"""Spaces as launches see them: their types, what a session may have in one, and who is in it."""
