"""Requests as the gateway lets them through: addresses, headers and bodies that are well formed.

aiohttp's parser refuses what is malformed (two lengths, bare line feeds, folded headers); here are
the rules that depend on what the next program may make of it (RFC 9112, section 6; RFC 9110, 7.6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from .errors import Refused
from .routes import NAME

PREFIX = "/services/portal/models/"
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
IDEMPOTENT = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}
_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
# The token and cookies are for the Hub alone; who calls, from where and how is for us to say.
_NOT_SENT = {
    "authorization",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "remote-user",
    "via",
    "x-real-ip",
    "x-remote-user",
}
_NOT_SENT_BEGIN = ("x-forwarded-", "x-portal-", "x-auth-", "x-remote-", "x-jupyterhub-", "cf-")
# A program answers on the Hub's own address: it must not set the Hub's cookies or policies.
_NOT_RETURNED = {
    "alt-svc",
    "clear-site-data",
    "content-security-policy",
    "content-security-policy-report-only",
    "nel",
    "public-key-pins",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    "www-authenticate",
    "x-content-type-options",
}
_TARGET = re.compile(r"[\x21-\x22\x24-\x7e]*")  # visible ASCII, no fragment
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_HIDDEN = re.compile(r"%(?:2e|2f|5c|25|00|0a|0d)", re.IGNORECASE)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")


def target(raw: str) -> tuple[str, str]:
    """Return the model's name and the program's path with its query. Raises Refused.

    A path that the program could read as another one ("..", an escaped slash) is refused, since
    its beginning decides whether it is let through.
    """
    if not raw.startswith(PREFIX):
        raise Refused(404, f"Models are at {PREFIX}NAME/.")
    path, mark, query = raw.partition("?")
    name, slash, rest = path[len(PREFIX) :].partition("/")
    if not re.fullmatch(NAME, name):
        raise Refused(404, f"Models are at {PREFIX}NAME/, with a name of a-z, 0-9 and '-'.")
    if not _TARGET.fullmatch(raw) or "\\" in path or _BAD_ESCAPE.search(path):
        raise Refused(400, "The address contains characters that must be escaped.")
    if _HIDDEN.search(path) or any(part in (".", "..") for part in rest.split("/")):
        raise Refused(400, "The address contains '..', or an escaped '/', '.' or '%'.")
    return name, f"/{rest}{mark}{query}" if slash else f"/{mark}{query}"


def check_form(request: web.BaseRequest) -> None:
    """Raise Refused for a request whose end could be understood in two ways, or that asks for
    another protocol."""
    headers = request.headers
    if request.method not in METHODS:
        raise Refused(405, f"The method must be one of {', '.join(sorted(METHODS))}.")
    lengths, codings = headers.getall("Content-Length", []), headers.getall("Transfer-Encoding", [])
    if len(lengths) + len(codings) > 1 or any(not re.fullmatch("[0-9]+", it) for it in lengths):
        raise Refused(400, "The request says its length more than once, or not as a number.")
    if any(coding.strip().lower() != "chunked" for coding in codings):
        raise Refused(400, "The only transfer encoding is 'chunked'.")
    if request.version < (1, 1) and codings:
        raise Refused(400, "HTTP/1.0 has no transfer encodings.")
    if len(headers.getall("Host", [])) > 1:
        raise Refused(400, "The request has two hosts.")
    if "upgrade" in headers or "upgrade" in headers.get("Connection", "").lower():
        raise Refused(400, "Models are asked by HTTP; WebSockets are not offered here.")
    if headers.get("Expect", "100-continue").lower() != "100-continue":
        raise Refused(400, "The only expectation is '100-continue'.")


def token(headers: CIMultiDictProxy[str]) -> str:
    """Return the caller's token. Raises Refused without one; cookies are not accepted."""
    values = headers.getall("Authorization", [])
    kind, _, value = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    value = value.strip()
    if kind.lower() not in ("bearer", "token") or not re.fullmatch(r"[!-~]{1,1000}", value):
        raise Refused(401, "A token is required: send 'Authorization: Bearer TOKEN'.")
    return value


def sent(headers: CIMultiDictProxy[str], name: str, user: str) -> CIMultiDict[str]:
    """Return the headers for the program. Raises Refused for a value with control characters."""
    result: CIMultiDict[str] = CIMultiDict()
    named = _named(headers.getall("Connection", []))
    for key, value in headers.items():
        low = key.lower().replace("_", "-")  # WSGI cannot tell the two apart
        if low in _HOP_BY_HOP or low in named or low in _NOT_SENT | {"content-length"}:
            continue
        if low.startswith(_NOT_SENT_BEGIN):
            continue
        if not _VALUE.fullmatch(value):
            raise Refused(400, "A header has control characters in its value.")
        result.add(key, value)
    result["Host"] = name
    result["X-Portal-User"] = user
    result["X-Forwarded-Prefix"] = f"{PREFIX}{name}"
    return result


def returned(headers: CIMultiDictProxy[str], name: str) -> CIMultiDict[str]:
    """Return the headers of the program's answer for the caller."""
    result: CIMultiDict[str] = CIMultiDict()
    named = _named(headers.getall("Connection", []))
    for key, value in headers.items():
        low = key.lower()
        if low in _HOP_BY_HOP or low in named or low in _NOT_RETURNED:
            continue
        if low.startswith("x-portal-") or not _VALUE.fullmatch(value):
            continue
        if low == "location":
            own = value.removeprefix(f"http://{name}")
            value = f"{PREFIX}{name}{own}" if own[:1] == "/" and own[:2] != "//" else value
        result.add(key, value)
    return result


def _named(values: Iterable[str]) -> set[str]:
    """Return the headers that Connection names: they are for one hop too."""
    return {part.strip().lower() for value in values for part in value.split(",")}
