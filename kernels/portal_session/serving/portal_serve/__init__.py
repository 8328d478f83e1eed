"""Console script portal-serve: its commands, and the routes by which it asks the portal."""


class ServeError(Exception):
    """Command that cannot be done; the message is a sentence."""
