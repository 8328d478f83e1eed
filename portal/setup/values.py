"""Readers of single answers: each returns the value, or raises ValueError with the reason."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ldap3.core.exceptions import LDAPException
from ldap3.utils.dn import parse_dn

SERVERS = ("none", "nginx", "apache", "caddy")


def read_text(raw: object) -> str:
    """Return a text of one line."""
    if not isinstance(raw, str):
        raise ValueError(f"a text is needed, not {raw!r}")
    if raw and not raw.isprintable():
        raise ValueError(f"{raw!r} has a line break or another control character")
    return raw.strip()


def _matching(pattern: str, reason: str) -> Callable[[Any], str]:
    def check(raw: object) -> str:
        text = read_text(raw)
        if text and not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not {reason}")
        return text

    return check


read_account = _matching(
    r"[a-z_][a-z0-9_-]{0,30}", "an account's name: small letters, digits, '-' and '_'"
)
read_group = _matching(
    r"[A-Za-z0-9_][A-Za-z0-9_. @\\-]{0,254}", "a group's name: letters, digits, '.', '-', '_', '@'"
)
read_server = _matching("|".join(SERVERS), f"one of {', '.join(SERVERS)}")
read_dns = _matching(
    r"(?=.{1,253}$)[a-zA-Z0-9]([a-zA-Z0-9-]{0,62}(?<!-))?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,62}(?<!-))?)*",
    "a host name such as portal.example.org",
)


def read_path(raw: object) -> str:
    """Return an absolute path. Raises ValueError, as all of these do."""
    text = read_text(raw)
    if text and not re.fullmatch(r"/[A-Za-z0-9_./+@,=:~ -]*", text):
        raise ValueError(
            f"{text!r} is not an absolute path of letters, digits, spaces and _./+@,=:~-"
        )
    if ".." in Path(text).parts:
        raise ValueError(f"{text!r} must not contain '..'")
    return str(Path(text)) if text else ""


def read_bind(raw: object) -> str:
    """Return a bind mount, PATH:ro or PATH:rw."""
    text = read_text(raw)
    path, colon, mode = text.rpartition(":")
    if colon and mode in ("ro", "rw"):
        return f"{read_path(path)}:{mode}"
    return f"{read_path(text)}:rw"


def read_address(raw: object) -> str:
    """Return an address or a host name that other machines may reach."""
    text = read_text(raw)
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return read_dns(text)
    if found.is_loopback or found.is_unspecified:
        raise ValueError(f"{text} is an address that no node reaches")
    return text


def read_uri(raw: object) -> str:
    """Return the URI of an LDAP server."""
    text = read_text(raw)
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("ldap", "ldaps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.path.strip("/") or parts.query or re.search(r"[\s'\"\\]", text):
        raise ValueError(f"{text!r} is not of the form ldaps://host[:port] or ldap://host[:port]")
    return text.rstrip("/")


def read_dn(raw: object) -> str:
    """Return a distinguished name."""
    text = read_text(raw)
    try:
        if text:
            parse_dn(text)
    except LDAPException:
        raise ValueError(f"{text!r} is not a name such as ou=people,dc=example,dc=org") from None
    return text


def read_template(raw: object) -> str:
    """Return a name with ``{username}`` in it."""
    text = read_text(raw)
    if text and text.count("{username}") != 1:
        raise ValueError(f"{text!r} must contain {{username}} once")
    return text


read_attribute = _matching(r"[A-Za-z][A-Za-z0-9-]*", "an attribute of LDAP")


def read_truth(raw: object) -> bool:
    """Return a truth value."""
    words = {"yes": True, "true": True, "no": False, "false": False}
    if isinstance(raw, str) and raw.lower() in words:
        return words[raw.lower()]
    if not isinstance(raw, bool):
        raise ValueError(f"yes or no is needed, not {raw!r}")
    return raw


def read_port(raw: object) -> str:
    """Return a port, as text."""
    text = str(raw) if isinstance(raw, int) and not isinstance(raw, bool) else read_text(raw)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 65535:
        raise ValueError(f"{text!r} is not a port, 1 to 65535")
    return str(int(text))


def list_of(check: Callable[[Any], str], least: int = 0, exactly: int = 0) -> Callable[[Any], Any]:
    """Return a reader of lists: ``least`` values, or ``exactly`` so many different ones."""

    def read(raw: object) -> list[str]:
        if isinstance(raw, str):  # typed on one line; DNs have commas, so these are separated by ;
            raw = [part for part in re.split(r"\s*;\s*", raw.strip()) if part]
        if not isinstance(raw, list):
            raise ValueError(f"a list is needed, not {raw!r}")
        values = [value for value in map(check, raw) if value]
        if exactly and (len(values) != exactly or len(set(values)) != exactly):
            raise ValueError(f"{exactly} different values are needed, not {len(values)}")
        if len(values) < least:
            raise ValueError("at least one is needed")
        return values

    return read
