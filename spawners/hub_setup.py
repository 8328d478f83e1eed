"""Preparation of a Hub for the portal's sessions: one call of its configuration.

Nothing of JupyterHub changes when a module of ``spawners`` is imported: JupyterHub imports the
spawners of all packages that are installed, whichever the site has chosen.
"""

from __future__ import annotations

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from portal.errors import ConfigurationError

from . import hub_database

MISSING = (
    "This Hub is not set up for the portal's sessions, so it starts none. An admin adds one line "
    "to its configuration: from spawners.hub_setup import set_up_hub; set_up_hub()"
)
_called = False


def set_up_hub() -> None:
    """Patch JupyterHub and add the portal's routes, in the Hub whose configuration calls this.

    Other programs read that file too (the portal's service, ``portal doctor``); in them nothing
    changes.
    """
    global _called
    _called = True
    hub = Application.instance() if Application.initialized() else None
    if isinstance(hub, JupyterHub):
        # Only here: the other programs do without these modules.
        from .api.routes import install_routes
        from .hub_patches import apply_patches

        apply_patches()
        install_routes()
        hub_database.watch(hub)


def is_set_up() -> bool:
    """Return whether the configuration that this process has read calls ``set_up_hub``."""
    return _called


def ensure_set_up() -> None:
    """Raise ConfigurationError, with the line that is missing, in a Hub that was not set up: its
    sessions' tokens could make it run any command (``hub_patches/stock_port_route.py``)."""
    if not _called:
        raise ConfigurationError(MISSING)
