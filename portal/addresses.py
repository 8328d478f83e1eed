"""Checks of user-supplied addresses that the service connects to: repositories, registries.

Such an address must not lead to what trusts this machine or stands behind the site's firewall: the
Hub's own API, a cloud's metadata, a switch. So a name is resolved here, each of its addresses is
checked, and the connecting program is told to use those and no others; otherwise a second lookup
could return another address (DNS rebinding).

Ranges: RFC 6890 and its registries, as `ipaddress` knows them; for IPv4 inside of IPv6 RFC 4291
(mapped, compatible), RFC 3056 (6to4), RFC 4380 (Teredo), RFC 6052 (NAT64).
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple
from urllib.request import getproxies_environment, proxy_bypass

from .errors import InvalidRequest, PortalError

Address = IPv4Address | IPv6Address

LOOPBACK = ("localhost", "127.0.0.0/8", "::1")  # for `allowed`
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_IN_96 = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))  # the last 32 bits are IPv4
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_PATIENCE = 10.0  # seconds for the resolver


class Destination(NamedTuple):
    """Host to connect to, a name without a final dot, its port, and its checked ``addresses``;
    none if a proxy of the site resolves the name."""

    host: str
    port: int
    addresses: tuple[str, ...]


def outside(address: Address) -> bool:
    """Return True if an address is on the public Internet: not of this machine, its links or
    private networks, and not reserved."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None or address in _LOCAL_NAT64 or address.is_site_local:
            return False
        if within := _within(address):
            return all(outside(ipv4) for ipv4 in within)
    return address.is_global and not address.is_multicast and not address.is_reserved


def on_a_link(address: Address) -> bool:
    """Return True if an address is link-local, as a cloud's metadata is, and nobody's server."""
    inner = _within(address) if isinstance(address, IPv6Address) else []
    return address.is_link_local or any(ipv4.is_link_local for ipv4 in inner)


def _within(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses embedded in an IPv6 address."""
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _IN_96):
        inner.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return [ipv4 for ipv4 in inner if ipv4 is not None]


def allows(entry: str, host: str, port: int, address: Address) -> bool:
    """Return True if an ``entry`` of a site's list covers an address of ``host``. Entries are
    hosts ("git.example.org"), domains (".example.org") and networks ("10.1.0.0/16", "10.1.2.3");
    all but networks may have a port ("git.example.org:8443", "[::1]:5000")."""
    entry = entry.strip().lower()
    with_port = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+):([0-9]{1,5})", entry)
    if with_port:
        if int(with_port[2]) != port:
            return False
        entry = with_port[1].strip("[]")
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        name = host.lower()
        return name.endswith(entry) if entry.startswith(".") else name == entry.rstrip(".")


def host_problem(host: str) -> str:
    """Return why ``host`` is not an accepted host name; "" if it is. Letters other than ASCII's
    are refused, since the connecting programs interpret them in different ways."""
    try:
        if ip_address(host) and "%" not in host:
            return ""
    except ValueError:
        pass
    if _NAME.fullmatch(host.removesuffix(".")) and ".." not in host:
        return ""
    return f"'{host[:200]}' is no name of a host: letters, digits, '-' and '.' only."


class InsideRefused(PortalError):
    """Refusal of a host with an address inside of the site; the message names the host."""

    code = "address_refused"
    status = 400


def look_up(host: str, port: int, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of ``host``, each checked against ``allowed``. Blocks. Raises
    InsideRefused, and OSError if there is none."""
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "no such name") from None
    addresses = tuple(dict.fromkeys(str(row[4][0]) for row in rows))
    for text in addresses:
        address = ip_address(text)
        if not outside(address) and not any(allows(rule, host, port, address) for rule in allowed):
            raise InsideRefused(
                f"'{host}' is an address inside of this site ({_kind(address)}), which the portal "
                "does not ask."
            )
    return addresses


async def destination(
    host: str, port: int, allowed: Sequence[str], *, setting: str, field: str, scheme: str = "https"
) -> Destination:
    """Resolve ``host`` and check each of its addresses. ``setting`` is the name of the setting
    with the list ``allowed``; ``field`` that of the request's field with the host.

    Raises InvalidRequest with a sentence.
    """
    if problem := host_problem(host):
        raise InvalidRequest(problem, field)
    host = host.removesuffix(".")
    try:
        async with asyncio.timeout(_PATIENCE):
            addresses = await asyncio.to_thread(look_up, host, port, allowed)
    except InsideRefused as error:
        message = f"{error.message} An admin can allow it: {setting}."
        raise InvalidRequest(message, field) from None
    except (OSError, TimeoutError):
        if proxied(scheme, host):  # the proxy may know names that this machine does not
            return Destination(host, port, ())
        raise InvalidRequest(f"The host '{host}' cannot be found (DNS).", field) from None
    return Destination(host, port, addresses)


def proxied(scheme: str, host: str) -> bool:
    """Return True if this process's environment sends such requests through a proxy."""
    proxies = getproxies_environment()
    return (scheme in proxies or "all" in proxies) and not proxy_bypass(host)


def _kind(address: Address) -> str:
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    return "private or reserved"
