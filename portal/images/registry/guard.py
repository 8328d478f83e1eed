"""Proxy that is the only way out of `fence`, and connects only where registries may lead.

A registry says where its tokens and layers are (``WWW-Authenticate``, ``Location``), so whoever
runs one could have the service ask its own Hub. Each host is therefore resolved and checked here
(`portal.addresses`), and nothing else is connected to.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment

from portal.addresses import InsideRefused, allows, host_problem, look_up, on_a_link, proxied

_WITH_PORT = re.compile(r":[0-9]{1,5}$")
_HEAD = 64 * 1024  # bytes
_SECONDS = 15.0  # to connect
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:@/\s\[\]]+):([0-9]{1,5})")


class Guard:
    """Guard of connections. ``registries``: the hosts to be asked ("nvcr.io", "127.0.0.1:5000").
    They may have any but link-local addresses, and keep those first resolved: else one could send
    a request to itself and be this machine by then. A registry on a private network may lead to
    others there. ``allowed``: the site's list."""

    def __init__(self, registries: Iterable[str], allowed: Sequence[str]) -> None:
        self._asked = {place for registry in registries for place in places(registry)}
        self._allowed = tuple(allowed)
        self.refused = ""  # sentence on the last host that was refused
        self._private: bool | None = None
        self._found: dict[str, tuple[str, ...]] = {}  # the addresses of registries
        self._sockets: list[socket.socket] = []

    def loopback(self) -> list[tuple[str, int]]:
        """Return the loopback addresses of the registries and of the site's list, which are asked
        without a proxy."""
        addresses: list[tuple[str, int]] = []
        named = {
            place for entry in self._allowed if _WITH_PORT.search(entry) for place in places(entry)
        }
        for host, port in sorted(self._asked | named):
            if host == "localhost":
                addresses += [("127.0.0.1", port), ("::1", port)]
            else:
                with contextlib.suppress(ValueError):
                    if ipaddress.ip_address(host.strip("[]")).is_loopback:
                        addresses.append((host.strip("[]"), port))
        return addresses

    def serve(self, proxy: socket.socket, forwarded: Sequence[socket.socket]) -> None:
        """Answer on sockets that listen, in threads of their own, until `close`."""
        self._sockets = [proxy, *forwarded]
        threading.Thread(target=self._accept, args=(proxy, None), daemon=True).start()
        for listener in forwarded:
            to = listener.getsockname()[:2]
            threading.Thread(target=self._accept, args=(listener, to), daemon=True).start()

    def close(self) -> None:
        """Stop listening; connections end with the program that has them."""
        for listener in self._sockets:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _accept(self, listening: socket.socket, to: tuple[str, int] | None) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client, to), daemon=True).start()

    def _answer(self, client: socket.socket, to: tuple[str, int] | None) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(120)
            if to is not None:
                with socket.create_connection(to, _SECONDS) as server:
                    _join(client, server)
                return
            head, rest = _head(client)
            try:
                server, first = self._opened(head)
            except InsideRefused as error:
                self.refused = error.message
                _say(client, "403 refused")
                return
            except socket.gaierror:
                _say(client, "502 no such host")
                return
            except TimeoutError:
                _say(client, "504 i/o timeout")
                return
            except OSError as error:
                _say(client, f"502 {(error.strerror or 'connection refused').lower()}")
                return
            with server:
                if first:
                    server.sendall(first + rest)
                else:
                    _say(client, "200 OK", close=False)
                _join(client, server)

    def _opened(self, head: str) -> tuple[socket.socket, bytes]:
        """Connect for a request; return the connection and what to send first (CONNECT: b"")."""
        line, _, fields = head.partition("\r\n")
        method, target, *_ = [*line.split(" "), "", ""]
        if method == "CONNECT":
            host, port = _authority(target)
            return self._connect("https", host, port, target), b""
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname:
            raise InsideRefused(f"'{target[:80]}' is not a registry address.")
        server = self._connect("http", parts.hostname, parts.port or 80, "")
        if not proxied("http", parts.hostname):
            target = parts._replace(scheme="", netloc="").geturl() or "/"
        headers = [
            header
            for header in fields.split("\r\n")
            if header and not re.match(r"(?i)(proxy-[a-z]+|connection):", header)
        ]
        # One request for one connection: the next one may be for another host.
        lines = [
            f"{method} {target} HTTP/1.1",
            *headers,
            *_login("http"),
            "Connection: close",
            "",
            "",
        ]
        return server, "\r\n".join(lines).encode("latin-1")

    def _connect(self, scheme: str, host: str, port: int, connect: str) -> socket.socket:
        host = host.lower().removesuffix(".")
        if problem := host_problem(host):
            raise InsideRefused(problem)
        try:
            addresses = self._look_up(host, port)
        except socket.gaierror:
            if not proxied(scheme, host):
                raise
            addresses = ()
        if proxied(scheme, host):
            return _through_proxy(scheme, connect)
        last: OSError = ConnectionRefusedError(111, "connection refused")
        for address in addresses:
            try:
                return socket.create_connection((address, port), _SECONDS)
            except OSError as error:
                last = error
        raise last

    def _look_up(self, host: str, port: int) -> tuple[str, ...]:
        if (host, port) not in self._asked:
            near = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]
            return look_up(host, port, [*self._allowed, *(near if self._is_private() else ())])
        if host in self._found:
            return self._found[host]
        addresses = look_up(host, port, ["0.0.0.0/0", "::/0"])
        for address in map(ipaddress.ip_address, addresses):
            if on_a_link(address) and not any(
                allows(entry, host, port, address) for entry in self._allowed
            ):
                raise InsideRefused(
                    f"'{host}' is a link-local address, which the portal does not contact."
                )
        return self._found.setdefault(host, addresses)

    def _is_private(self) -> bool:
        """Return True if one of the registries is on a private network."""
        if self._private is None:
            self._private = False
            for host, port in self._asked:
                with contextlib.suppress(OSError):
                    for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                        address = ipaddress.ip_address(str(row[4][0]).partition("%")[0])
                        inner = address.is_loopback or address.is_link_local
                        self._private |= address.is_private and not inner
        return self._private


def places(registry: str) -> set[tuple[str, int]]:
    """Return host and ports of a registry as written ("nvcr.io", "127.0.0.1:5000")."""
    match = re.fullmatch(r"(.+):([0-9]{1,5})", registry.lower())
    if match:
        return {(match[1].removesuffix("."), int(match[2]))}
    return {(registry.lower().removesuffix("."), port) for port in (443, 80)}


def _authority(text: str) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(text)
    if not match or int(match[2]) > 65535:
        raise InsideRefused(f"'{text[:80]}' is not a registry address.")
    return match[1].strip("[]"), int(match[2])


def _head(client: socket.socket) -> tuple[str, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(8192)
        if not part or len(data) > _HEAD:
            raise OSError("no request")
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


def _say(client: socket.socket, status: str, *, close: bool = True) -> None:
    more = "Content-Length: 0\r\nConnection: close\r\n" if close else ""
    client.sendall(f"HTTP/1.1 {status}\r\n{more}\r\n".encode())


def _through_proxy(scheme: str, connect: str) -> socket.socket:
    """Connect to the site's own proxy; ``connect``: host and port that it shall reach."""
    proxies = getproxies_environment()
    parts = urlsplit(proxies.get(scheme) or proxies["all"])
    server = socket.create_connection((parts.hostname or "", parts.port or 3128), _SECONDS)
    if connect:
        lines = [f"CONNECT {connect} HTTP/1.1", f"Host: {connect}", *_login(scheme), "", ""]
        server.sendall("\r\n".join(lines).encode("latin-1"))
        head, _ = _head(server)
        status = head.split("\r\n", 1)[0].split(" ", 1)[-1]
        if not status.startswith("200"):
            server.close()
            raise OSError(0, f"the site's proxy answered {status[:60]}")
    return server


def _login(scheme: str) -> list[str]:
    """Return the header with the password for the site's own proxy, if it has one."""
    parts = urlsplit(getproxies_environment().get(scheme, ""))
    if not parts.username:
        return []
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return [f"Proxy-Authorization: Basic {base64.b64encode(credentials.encode()).decode()}"]


def _join(client: socket.socket, server: socket.socket) -> None:
    """Relay data between both sockets until both have sent everything."""
    back = threading.Thread(target=_pump, args=(server, client), daemon=True)
    back.start()
    _pump(client, server)
    back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    source.settimeout(120)
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
