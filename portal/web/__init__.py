"""Checks of requests to the Hub and the service before any handler runs: host and size."""
