"""Environments: where their definitions come from and who sees which."""

from .files import EnvironmentCatalog, visible
from .problems import CatalogError
from .rules import CatalogRules

__all__ = ["CatalogError", "CatalogRules", "EnvironmentCatalog", "visible"]
