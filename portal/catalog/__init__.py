"""Environments: where their definitions come from and who sees which."""

from .files import CatalogError, EnvironmentCatalog, visible

__all__ = ["CatalogError", "EnvironmentCatalog", "visible"]
