"""What goes on while a course meets: presence, messages, help and rooms."""
