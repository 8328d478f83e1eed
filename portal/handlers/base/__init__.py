"""What every handler stands on: who asks, what an endpoint takes and gives, lists and files."""
