"""Origin of a login: its address, and its browser if known from earlier logins."""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Any

from .throttle import Attempt

COOKIE = "portal-device"
_DAYS = 365
_MOST = 8  # people who share a browser
_VALUE = re.compile(r"[0-9a-f]{24}(:[0-9a-f]{24}){1,8}")


def attempt_of(handler: Any, name: str) -> Attempt:
    """Return the attempt of ``name`` to log in with this request; without one, the name alone."""
    if handler is None:
        return Attempt(name)
    device, marks = _device(handler)
    known = bool(device) and _mark(device, name) in marks
    return Attempt(name, address_of(handler.request), device if known else "")


def remember(handler: Any, name: str) -> None:
    """Give the browser a cookie, signed by the Hub, that records a login of ``name`` with it."""
    if handler is None:
        return
    device, marks = _device(handler)
    device = device or secrets.token_hex(12)
    mark = _mark(device, name)
    marks = [mark, *(other for other in marks if other != mark)][:_MOST]
    handler._set_cookie(
        _cookie(handler),
        ":".join((device, *marks)),
        path=handler.hub.base_url,
        expires_days=_DAYS,
        samesite="Lax",
    )


def address_of(request: Any) -> str:
    """Return the address that a request comes from; "" if only proxies of this machine are known.

    For IPv6, it is the network (/64), which belongs to a single customer. As in JupyterHub, it is
    the last entry of X-Forwarded-For that is not in `c.JupyterHub.trusted_downstream_ips`. Unlike
    there, X-Real-Ip is ignored, which the proxy passes on from anybody, and so is X-Forwarded-For
    from another machine.
    """
    context = getattr(getattr(request, "connection", None), "context", None)
    peer = getattr(context, "_orig_remote_ip", None) or request.remote_ip or ""
    trusted = {*getattr(context, "trusted_downstream", ()), _own_end(request)}
    named = request.headers.get("X-Forwarded-For", "").split(",")
    for candidate in (peer, *(name.strip() for name in reversed(named))):
        if candidate in trusted:
            continue
        try:
            address = ip_address(candidate)
        except ValueError:
            return ""
        if isinstance(address, IPv6Address):
            address = address.ipv4_mapped or address
        if address.is_loopback:
            continue
        if isinstance(address, IPv6Address):
            return str(IPv6Address(int(address) >> 64 << 64)) + "/64"
        return str(address)
    return ""


def _own_end(request: Any) -> str:
    """Return the address at which this request reached the Hub. A peer with the same address is on
    this machine: the proxy."""
    with suppress(AttributeError, OSError, IndexError, TypeError):
        return str(request.connection.stream.socket.getsockname()[0])
    return ""


def _device(handler: Any) -> tuple[str, list[str]]:
    """Return the browser's random id and the marks of the people who have logged in with it."""
    value = handler.get_secure_cookie(_cookie(handler), max_age_days=_DAYS) or b""
    text = value.decode("ascii", "replace")
    if not _VALUE.fullmatch(text):
        return "", []
    device, *marks = text.split(":")
    return device, marks


def _mark(device: str, name: str) -> str:
    """Return the mark of a person, without their name: others may look into the cookies."""
    return hashlib.sha256(f"{device} {name}".encode()).hexdigest()[:24]


def _cookie(handler: Any) -> str:
    """Return the cookie's name, with the prefix against other hosts if JupyterHub uses that."""
    prefix = "__Host-" if str(handler.hub.cookie_name).startswith("__Host-") else ""
    return prefix + COOKIE
