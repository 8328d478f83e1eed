"""Names for the Hub's configuration files: roles, groups, the proxy, the start."""
