"""Whose host is whose, where sessions have hosts of their own (c.JupyterHub.subdomain_host).

A page's script may do what the person who opened it may do at the page's origin. Student code must
not have the Hub's, so each person has a host below it. The portal's own service stays on the Hub's:
its pages ask the Hub, and the Hub's pages ask it.
"""

from __future__ import annotations

from jupyterhub.utils import subdomain_hook_idna

SERVICE = "portal"


def host_of(name: str, domain: str, kind: str) -> str:
    """The host, without a port, of the person or service ``name``; ``domain`` is the Hub's own,
    ``kind`` "user" or "service" (c.JupyterHub.subdomain_hook)."""
    if kind == "service" and name == SERVICE:
        return domain
    return str(subdomain_hook_idna(name, domain, kind))
