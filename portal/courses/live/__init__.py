"""A course while it meets: presence, messages, help and rooms."""
