"""Catalog of models: YAML files of the site, each tried with its example before it is offered."""
