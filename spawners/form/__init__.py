"""Launch page: its choices, its defaults and its texts."""
