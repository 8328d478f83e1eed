"""The addresses at which the Hub answers, where sessions have hosts of their own.

The proxy sends what belongs to no session to the Hub, on the hosts of sessions too. A page of the
Hub there, the login first of all, would give its cookies to whatever runs in that session.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# Paths below the Hub's for programs, at the addresses by which programs know the Hub. Nobody can
# log in with these.
_MACHINE = ("api/", "error/", "metrics")
# Paths that set no cookie and read none: a load balancer's question, and what pages are made of.
_ANYWHERE = ("health", "logo")


def host_in(url: str) -> str:
    """Return the host in ``url`` without a port, in lower case; "" for none."""
    return (urlsplit(url).hostname or "").lower()


@dataclass(frozen=True)
class HubHosts:
    """The Hub's own hosts.

    ``home`` is its public address without a path, "" where sessions have the Hub's host: there,
    it answers at every one. ``connect`` are the hosts by which programs reach it beside loopback.
    ``prefix`` is its path with both slashes.
    """

    home: str
    connect: frozenset[str] = frozenset()
    prefix: str = "/hub/"

    def answers(self, host: str, path: str) -> bool:
        """Return whether the Hub answers for ``path`` at ``host``, which has no port."""
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
