"""Endpoints of the API about models that are served."""

from __future__ import annotations

from .catalog.endpoints import ENDPOINTS as CATALOG
from .endpoints import ENDPOINTS as OF_USERS
from .own import ENDPOINTS as OF_SESSIONS

ENDPOINTS = (*CATALOG, *OF_SESSIONS, *OF_USERS)
