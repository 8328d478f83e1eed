"""Route of the session's broker for storages: ``portal-s3`` asks the portal through it."""

from __future__ import annotations

from typing import Any

from ..job_kernels.broker_handler import Ask, SessionHandler


def routes(ask: Ask) -> list[Any]:
    """Return the routes. ``ask`` sends a method, a path and a body to the service."""
    return [("/storages", SessionHandler, {"ask": ask, "methods": "GET"})]
