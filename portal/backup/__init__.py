"""``portal backup`` and ``portal restore``: one file with both databases, secrets, configuration
and catalog of a site, made while everything runs."""
