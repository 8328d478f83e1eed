"""Addresses at which the Hub and sessions answer, and limits on the Hub's requests."""
