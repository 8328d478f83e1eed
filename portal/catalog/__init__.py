"""Environments: where their definitions come from and who sees which."""

from .definitions.problems import CatalogError
from .definitions.rules import CatalogRules
from .files import EnvironmentCatalog, visible

__all__ = ["CatalogError", "CatalogRules", "EnvironmentCatalog", "visible"]
