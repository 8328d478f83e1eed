"""The web service: what is made, what lives, and what answers at which address."""

from .service import PortalService

__all__ = ["PortalService"]
