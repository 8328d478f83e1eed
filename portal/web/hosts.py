"""Addresses at which the Hub answers if sessions have hosts of their own.

The proxy routes to the Hub what belongs to no session, on the hosts of sessions too. A page of the
Hub there, the login first of all, would give its cookies to whatever runs in that session.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# Paths below the Hub's for programs, at the addresses by which programs reach it. None of them
# leads to a login.
_MACHINE = ("api/", "error/", "metrics")
# Paths that neither set nor read a cookie: a load balancer's check, and the assets of pages.
_ANYWHERE = ("health", "logo")


def host_in(url: str) -> str:
    """Return the host in ``url`` without a port, in lower case; "" for none."""
    return (urlsplit(url).hostname or "").lower()


@dataclass(frozen=True)
class HubHosts:
    """Hosts of the Hub."""

    # Its public address without a path, "" if sessions share the Hub's host: it then answers at
    # every one.
    home: str
    connect: frozenset[str] = frozenset()  # hosts by which programs reach it, besides loopback
    prefix: str = "/hub/"  # its path with both slashes

    def answers(self, host: str, path: str) -> bool:
        """Return True if the Hub answers for ``path`` at ``host``, which has no port."""
        host = host.lower().removeprefix("[").removesuffix("]")
        if not self.home or host == host_in(self.home):
            return True
        below = path.removeprefix(self.prefix) if path.startswith(self.prefix) else ""
        if below.rstrip("/") in _ANYWHERE or below.startswith("static/"):
            return True
        return host in self.connect | _LOOPBACK and below.startswith(_MACHINE)

    def at_home(self, uri: str) -> str:
        """Return the address on the Hub's own host for ``uri``, a path and its query."""
        if not uri.startswith("/"):  # "*", or a whole address
            return self.home + self.prefix
        base = self.prefix.removesuffix("hub/")
        own = uri.startswith((self.prefix, f"{base}services/")) or uri == self.prefix.rstrip("/")
        return self.home + (uri if own else self.prefix + uri.removeprefix(base).lstrip("/"))
