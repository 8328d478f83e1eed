"""Addresses of kernels in jobs of their own."""

from __future__ import annotations

from . import endpoints, modules

ENDPOINTS = (*endpoints.ENDPOINTS, *modules.ENDPOINTS)
