"""Endpoints of the API about models that are served."""

from __future__ import annotations

from .catalog.endpoints import ENDPOINTS as CATALOG
from .endpoints import ENDPOINTS as OWN

ENDPOINTS = (*CATALOG, *OWN)
