"""The catalog by the API: environments, their versions, builds and tests."""
