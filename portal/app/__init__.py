"""The web service: its parts, its background tasks, and its routes."""

from .service import PortalService

__all__ = ["PortalService"]
