"""Choices of a field for a user, as forms and dialogs show them."""
