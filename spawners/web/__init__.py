"""The addresses at which the Hub and sessions answer, and what the Hub reads of a request."""
