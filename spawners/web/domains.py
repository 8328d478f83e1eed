"""Hosts of people and services, where sessions have their own (c.JupyterHub.subdomain_host).

A page's script may do what the person who opened it may do at the page's origin. Student code must
not have the Hub's, so each person has a host below it. The portal's own service stays on the Hub's:
its pages call the Hub, and the Hub's pages call it.

For a name that is no valid label, JupyterHub's own hook (subdomain_hook_idna) makes one with 28
bits of a hash: people who choose names find two with the same host in a second. Labels here have
160 bits, and only generated ones contain ``--``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable

import idna

SERVICE = "portal"
_MOST = 63  # characters of a label (RFC 1035, 2.3.4)
_STUB = 27  # of those, characters of the name in a generated label
# A name that is its own label; not all digits, which reads as an address.
_PLAIN = re.compile(r"(?!\d+\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def host_of(name: str, domain: str, kind: str) -> str:
    """Return the host, without a port, of the person or service ``name``.

    ``domain`` is the Hub's own host, ``kind`` "user" or "service" (c.JupyterHub.subdomain_hook).
    """
    if kind != "service":
        return f"{_label(name)}.{domain}"
    if name == SERVICE:
        return domain
    label = f"{name}--service"
    return f"{label if _plain(name) and len(label) <= _MOST else _made('v', kind, name)}.{domain}"


def sessions_below(sessions: str) -> Callable[[str, str, str], str]:
    """Return a hook that gives sessions hosts below ``sessions``, e.g. "gpu-sessions.example".

    With a registrable domain other than the Hub's, their pages can set no cookie for the Hub.
    Services stay with it.
    """

    def hook(name: str, domain: str, kind: str) -> str:
        return host_of(name, domain if kind == "service" else sessions, kind)

    return hook


def host_of_server(
    name: str, server: str, domain: str, hook: Callable[[str, str, str], str] = host_of
) -> str:
    """Return the host of a named server of the person ``name``: beside theirs, and nobody else's.

    ``hook`` is the site's c.JupyterHub.subdomain_hook, which gives the person's host.
    """
    below = hook(name, domain, kind="user").partition(".")[2]  # type: ignore[call-arg]
    return f"{_made('s', server, name)}.{below}"


def _label(name: str) -> str:
    if _plain(name):
        return name
    if name.isascii() or "--" in name:  # already encoded, so not its own label
        return _made("u", name)
    try:
        label = idna.encode(name).decode("ascii")  # RFC 5891: one label for one name
    except idna.IDNAError:
        return _made("u", name)
    return label if "." not in label else _made("u", name)


def _plain(name: str) -> bool:
    """Return True if ``name`` is its own label."""
    return len(name) <= _MOST and "--" not in name and _PLAIN.fullmatch(name) is not None


def _made(prefix: str, *names: str) -> str:
    """Return a label that shows the first of ``names`` and is generated from all of them."""
    digest = hashlib.sha256(json.dumps([prefix, *names]).encode()).digest()[:20]
    stub = re.sub("[^a-z0-9]+", "-", names[0].lower())[:_STUB].strip("-") or "x"
    return f"{prefix}-{stub}--{base64.b32encode(digest).decode().lower()}"
