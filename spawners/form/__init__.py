"""The launch page: its choices, its defaults and its words."""
