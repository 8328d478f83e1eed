"""The service's pages and what they are drawn with."""
