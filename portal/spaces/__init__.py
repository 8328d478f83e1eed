"""Spaces as launches see them: their types, and what a session may have in one. Pure."""
