"""Files that a session puts into a person's home: starter notebooks, the welcome notebook."""
