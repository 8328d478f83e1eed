"""Use of ``spawners.web.hub_application.HubApplication`` as the Hub's tornado application."""

from __future__ import annotations

from typing import Any

from jupyterhub.app import JupyterHub

from ..web.hub_application import HubApplication, HubRequests, hosts_of
from .patch import Patch


def init_tornado_application(self: JupyterHub) -> None:
    """Make the Hub's application, in place of JupyterHub's method."""
    limits = HubRequests(config=self.config)
    settings: dict[str, Any] = {
        "hub_hosts": hosts_of(self, limits.hosts),
        "max_body": limits.max_body,
    }
    self.tornado_application = HubApplication(self.handlers, **self.tornado_settings, **settings)


def apply() -> None:
    """Make every Hub of this process use that application."""
    JupyterHub.init_tornado_application = init_tornado_application


PATCH = Patch(
    name="bounded-application",
    changes=("jupyterhub.app:JupyterHub.init_tornado_application",),
    why=(
        "Security: JupyterHub answers at every host that leads to it, including sessions' "
        "hosts, and reads bodies of 100 MB into memory before it authenticates the sender. It "
        "creates tornado's plain Application, without a hook for another class."
    ),
    upstream="none",
    until=(
        "JupyterHub has a setting for the class of its application, or enforces both bounds itself."
    ),
    apply=apply,
)
