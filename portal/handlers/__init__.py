"""The service's pages and REST API, one file a noun."""
