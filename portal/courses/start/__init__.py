"""Sessions that are started for a whole class."""
