"""Faults that skopeo reports, and its words for the person who pasted the reference.

skopeo and the library below it (containers/image) print errors of Go, of the registry's protocol
(https://github.com/distribution/distribution, docs/spec/api.md, "Errors") and of TLS, all on one
line of stderr; there are no codes.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Fault(StrEnum):
    """Cause for which the registry did not answer."""

    TAG = "tag"
    REPOSITORY = "repository"
    PASSWORD = "password"  # noqa: S105 - a word, no secret
    DENIED = "denied"
    CERTIFICATE = "certificate"
    PLAIN_HTTP = "plain_http"
    BUSY = "busy"
    AWAY = "away"
    OTHER = "other"


# The first match counts: errors of a registry stand before those of the network.
_FAULTS: tuple[tuple[Fault, str], ...] = (
    (Fault.BUSY, r"toomanyrequests|too many requests|rate limit|status (?:code )?429|\b429\b"),
    (
        Fault.PASSWORD,
        r"invalid username/password|incorrect username or password|authentication required"
        r"|unauthorized|status (?:code )?401",
    ),
    (Fault.DENIED, r"requested access to the resource is denied|denied:|status (?:code )?403"),
    (Fault.REPOSITORY, r"name unknown|name invalid|repository name not known"),
    (Fault.TAG, r"manifest unknown|manifest for .* not found|not found|status (?:code )?404"),
    (Fault.CERTIFICATE, r"x509|certificate|tls: "),
    (Fault.PLAIN_HTTP, r"server gave HTTP response to HTTPS client"),
    (
        Fault.AWAY,
        r"no such host|connection refused|i/o timeout|timed? ?out|unreachable|no route to host"
        r"|connection reset|EOF|deadline exceeded|dial tcp|temporary failure|lookup "
        r"|status (?:code )?5\d\d|received unexpected HTTP status: 5\d\d|server misbehaving",
    ),
)
_MIRRORS = re.compile(r"\(Mirrors also failed: \[(.*?)\]\): (.*)", re.DOTALL)
_MESSAGE = re.compile(r'level=(?:fatal|error) msg="((?:[^"\\]|\\.)*)"')


def fault_of(stderr: str) -> tuple[Fault, str]:
    """Return the fault, and skopeo's own words for it (one line, no markup of its own).

    If a mirror was asked first and the registry itself cannot be reached, which is usual with a
    mirror, the mirror's complaint is the one that counts.
    """
    errors = _MESSAGE.findall(stderr)
    message = (errors[-1] if errors else stderr.strip()).replace('\\"', '"').replace("\\n", " ")
    if mirrored := _MIRRORS.search(message):
        of_mirror, of_registry = mirrored.groups()
        message = of_mirror if _fault(of_registry) is Fault.AWAY else of_registry
    return _fault(message), _short(message)


def _fault(message: str) -> Fault:
    for fault, pattern in _FAULTS:
        if re.search(pattern, message, re.IGNORECASE):
            return fault
    return Fault.OTHER


def _short(message: str) -> str:
    """Return the last part, which names the cause; the parts before it repeat the image's name."""
    message = re.sub(r"[\x00-\x1f\x7f]+", " ", message).strip()
    parts = message.split(": ")
    return ": ".join(parts[-2:])[:300]
