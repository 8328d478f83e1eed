"""Endpoints of the API about models that are served. The more general address is last."""

from __future__ import annotations

from .catalog.endpoints import ENDPOINTS as CATALOG
from .choices import ENDPOINTS as CHOICES
from .endpoints import ENDPOINTS as OF_USERS
from .figure_endpoints import ENDPOINTS as FIGURES
from .own import ENDPOINTS as OF_SESSIONS
from .trial import ENDPOINTS as TRIAL

ENDPOINTS = (*CATALOG, *CHOICES, *FIGURES, *TRIAL, *OF_SESSIONS, *OF_USERS)
