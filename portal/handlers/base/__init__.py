"""The base of every handler: who asks, what an endpoint takes and gives, lists and files."""
