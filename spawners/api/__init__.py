"""The routes that the portal adds to the Hub."""
