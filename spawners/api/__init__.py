"""Routes that the portal adds to the Hub."""
