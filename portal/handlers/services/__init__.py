"""What the handlers work with, made once by the service."""
