"""What admins announce and read, and the API's own description."""
