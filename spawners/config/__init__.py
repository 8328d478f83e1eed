"""What the Hub's configuration files name: roles, groups, the proxy, the start."""
