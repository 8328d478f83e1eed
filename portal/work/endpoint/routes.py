"""Endpoints of ``api/v1`` for models that are served. The more general address is last."""

from __future__ import annotations

from . import choices, endpoints, figure_endpoints, trial

ENDPOINTS = (
    *choices.ENDPOINTS,
    *figure_endpoints.ENDPOINTS,
    *trial.ENDPOINTS,
    *endpoints.ENDPOINTS,
)
