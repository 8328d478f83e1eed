"""Base classes of the handlers: authentication, requests and responses, lists, files."""
