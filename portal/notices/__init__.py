"""Mail to people who wait: their session has started, or is about to end."""

from .notices import Notices

__all__ = ["Notices"]
