"""Mail to users: their session has started after a wait, or is about to end."""

from .notices import Notices

__all__ = ["Notices"]
