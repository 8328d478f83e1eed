"""What the Hub and the service ask of a request before anybody answers it: host and size."""
