"""The tables of environments: versions, builds, tests and people's requests."""
