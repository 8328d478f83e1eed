"""The tables of environments: versions, builds, tests and what people ask for."""
