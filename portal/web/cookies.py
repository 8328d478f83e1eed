"""Cookies that are too large to be read, and headers that make a browser delete them.

A page on a subdomain of the Hub's host, such as a session's, may set cookies for all hosts there
(RFC 6265, 5.3): some 180 of 4 KiB each, until nobody who saw it can open the Hub any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tornado.httputil import HTTPHeaders

MOST = 16 * 1024  # bytes of cookies that a request may have; Node reads no more by default
HEADERS = 1024 * 1024  # bytes of headers that are read at all: what a browser can send
_FORGET = "=x; Max-Age=0; Path="
_ANSWER = 32 * 1024  # bytes of Set-Cookie in one answer
_NAME = re.compile(r"[^\x00-\x20\x7f;,=]{0,256}")
_DOMAIN = re.compile(r"(?=.*[a-z])[a-z0-9-]+(?:\.[a-z0-9-]+)*")


def size_of(headers: HTTPHeaders) -> int:
    """Return the bytes of cookies in a request."""
    return sum(map(len, headers.get_list("Cookie")))


def forget(headers: HTTPHeaders, host: str, path: str, secure: bool) -> list[str]:
    """Return Set-Cookie headers that delete the largest cookies; half of `MOST` is left at most.

    ``host`` and ``path`` are the request's: a cookie is identified by name, domain and path, and a
    request tells only the name, so each combination that it can have is deleted. ``secure``:
    whether the request came by HTTPS.
    """
    lines: list[str] = []
    left, size = size_of(headers), 0
    for name, length in _largest(headers):
        if left <= MOST // 2:
            break
        left -= length
        for scope in _scopes(name, host, path):
            line = name + _FORGET + scope + ("; Secure" if secure else "")
            size += len(line)
            if size > _ANSWER:  # the next visit ends the next ones
                return lines
            lines.append(line)
    return lines


def _largest(headers: HTTPHeaders) -> list[tuple[str, int]]:
    """Return the names of cookies with their sizes in bytes, the largest first."""
    sizes: dict[str, int] = {}
    for line in headers.get_list("Cookie"):
        for cookie in line.split(";"):
            name = cookie.partition("=")[0].strip() if "=" in cookie else ""
            if _NAME.fullmatch(name):
                sizes[name] = sizes.get(name, 0) + len(cookie)
    return sorted(sizes.items(), key=lambda item: -item[1])


def _scopes(name: str, host: str, path: str) -> Iterator[str]:
    """Yield each path, with each domain, that a cookie of the request can have."""
    if name.startswith("__Host-"):  # RFC 6265bis, 4.1.3.2
        yield "/"
        return
    for domain in _domains(host):
        for prefix in _prefixes(path):
            yield prefix + (f"; Domain={domain}" if domain else "")


def _domains(host: str) -> list[str]:
    """Return the host and its parent domains, and "" for the host alone."""
    if not _DOMAIN.fullmatch(host):  # an address has none
        return [""]
    labels = host.split(".")
    return [".".join(labels[at:]) for at in range(max(1, len(labels) - 1))] + [""]


def _prefixes(path: str) -> list[str]:
    """Return the cookie paths that match ``path`` (RFC 6265, 5.1.4), 12 at most."""
    if not re.fullmatch(r"/[\x21-\x3a\x3c-\x7e]*", path) or len(path) > 1000:
        return ["/"]
    ends = [at for at, char in enumerate(path) if char == "/"]
    paths = [path[: at + 1] for at in ends] + [path[:at] for at in ends if at] + [path]
    return list(dict.fromkeys(paths))[:12]
