"""Whose host is whose, where sessions have hosts of their own (c.JupyterHub.subdomain_host).

A page's script may do what the person who opened it may do at the page's origin. Student code must
not have the Hub's, so each person has a host below it. The portal's own service stays on the Hub's:
its pages ask the Hub, and the Hub's pages ask it.
"""

from __future__ import annotations

from collections.abc import Callable

from jupyterhub.utils import subdomain_hook_idna

SERVICE = "portal"


def host_of(name: str, domain: str, kind: str) -> str:
    """The host, without a port, of the person or service ``name``; ``domain`` is the Hub's own,
    ``kind`` "user" or "service" (c.JupyterHub.subdomain_hook)."""
    if kind == "service" and name == SERVICE:
        return domain
    return str(subdomain_hook_idna(name, domain, kind))


def host_of_server(
    name: str, server: str, domain: str, hook: Callable[[str, str, str], str] = host_of
) -> str:
    """The host of one named server of the person ``name``: no login has a space in it, so that it
    is nobody else's."""
    return str(hook(f"{server} {name}", domain, kind="user"))  # type: ignore[call-arg]
