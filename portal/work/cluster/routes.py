"""Addresses of clusters."""

from __future__ import annotations

from . import endpoints, kept

ENDPOINTS = (*endpoints.ENDPOINTS, *kept.ENDPOINTS)
