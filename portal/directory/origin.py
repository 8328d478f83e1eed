"""Where a login comes from: its address, and the browser that has logged in before."""

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
    """The login of ``name`` that this request asks for. No request: nothing is known of it."""
    if handler is None:
        return Attempt(name)
    device, marks = _device(handler)
    known = bool(device) and _mark(device, name) in marks
    return Attempt(name, address_of(handler.request), device if known else "")


def remember(handler: Any, name: str) -> None:
    """Give the browser a cookie, signed by the Hub, that says that ``name`` has logged in there."""
    if handler is None:
        return
    device, marks = _device(handler)
    device = device or secrets.token_hex(12)
    mark = _mark(device, name)
    marks = [mark, *(one for one in marks if one != mark)][:_MOST]
    handler._set_cookie(
        _cookie(handler),
        ":".join((device, *marks)),
        path=handler.hub.base_url,
        expires_days=_DAYS,
        samesite="Lax",
    )


def address_of(request: Any) -> str:
    """The address that a request comes from; "" where proxies of this machine are all that is
    known. Of IPv6 it is the network (/64), which is one customer's.

    As in JupyterHub, the last entry of X-Forwarded-For that is none of
    `c.JupyterHub.trusted_downstream_ips`. Unlike there, X-Real-Ip does not count, which the
    proxy passes on from anybody, and neither does X-Forwarded-For from another machine.
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
    """The address at which this request reached the Hub. A peer with the same one is on this
    machine: it is the proxy."""
    with suppress(AttributeError, OSError, IndexError, TypeError):
        return str(request.connection.stream.socket.getsockname()[0])
    return ""


def _device(handler: Any) -> tuple[str, list[str]]:
    """The browser's own random word and the marks of who has logged in there."""
    value = handler.get_secure_cookie(_cookie(handler), max_age_days=_DAYS) or b""
    text = value.decode("ascii", "replace")
    if not _VALUE.fullmatch(text):
        return "", []
    device, *marks = text.split(":")
    return device, marks


def _mark(device: str, name: str) -> str:
    """Whom a browser knows, without their name: others may look into its cookies."""
    return hashlib.sha256(f"{device} {name}".encode()).hexdigest()[:24]


def _cookie(handler: Any) -> str:
    """With the prefix that keeps it from pages of other hosts, where JupyterHub uses that."""
    prefix = "__Host-" if str(handler.hub.cookie_name).startswith("__Host-") else ""
    return prefix + COOKIE
