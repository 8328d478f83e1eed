"""Setup of a Hub for the portal's sessions, with one call in its configuration.

Importing a module of ``spawners`` changes nothing in JupyterHub, which imports the spawners of all
installed packages, whichever the site has chosen.
"""

from __future__ import annotations

from typing import Any

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from portal import __version__
from portal.errors import ConfigurationError
from portal.features import add_works
from portal.former_settings import warn_of_former
from portal.logs.request import request_id
from portal.navigation import FOR_PAGES

from . import hub_database

MISSING = (
    "This Hub is not set up for the portal's sessions, so it starts none. An admin must add "
    "this line to its configuration: from spawners.hub_setup import set_up_hub; set_up_hub()"
)
_called = False


def set_up_hub() -> None:
    """Patch JupyterHub and add the portal's routes, in the Hub whose configuration calls this.

    In other programs that read the file (the portal's service, ``portal doctor``) it does nothing.
    """
    global _called
    _called = True
    hub = Application.instance() if Application.initialized() else None
    if isinstance(hub, JupyterHub):
        # Only here: the other programs do not need these modules.
        from .api.routes import install_routes
        from .config import databases
        from .config.log_format import set_log_format
        from .hub_patches import apply_patches

        set_log_format(hub)
        apply_patches()
        install_routes()
        databases.watch(hub)  # first: what must not be used is not written to
        hub_database.watch(hub)
        # Once the file is read, and before the Hub makes its parts: they share this configuration.
        hub.observe(_configured, names="session_factory")


def _configured(change: Any) -> None:
    hub = change.owner
    warn_of_former(hub.config, hub.log)
    hub.log.info("Data Scientist Portal %s", __version__)
    hub.template_vars = {
        **hub.template_vars,
        "portal_navigation": FOR_PAGES,
        "portal_version": __version__,
        "portal_request_id": lambda user: request_id(),  # JupyterHub calls it
    }
    try:
        add_works(hub.config)
    except ConfigurationError as error:
        hub.log.critical("%s", error)
        hub.exit(1)


def is_set_up() -> bool:
    """Return True if the configuration that this process has read calls ``set_up_hub``."""
    return _called


def ensure_set_up() -> None:
    """Raise ConfigurationError with the missing line if the Hub was not set up: its sessions'
    tokens could make it run any command (``hub_patches/stock_port_route.py``)."""
    if not _called:
        raise ConfigurationError(MISSING)
