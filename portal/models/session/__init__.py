"""Sessions: what they ask for, are, say and use."""
