"""Services that the handlers work with, made once by the service."""
