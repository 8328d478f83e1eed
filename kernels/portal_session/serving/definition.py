"""Definition of the job's endpoint, as the service has told it in variables of the job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..job_kernels.wire.listener import PORTS as PORTS_OF_KERNELS

VARIABLE = "PORTAL_ENDPOINT"  # JSON, see Definition
GATEWAY = "PORTAL_ENDPOINT_GATEWAY"  # the gateway's certificate, PEM, which is public
PORTS = "PORTAL_ENDPOINT_PORTS"  # the site's range ("40000-40999"); without it, that of job kernels


class BadDefinition(Exception):
    """Definition that cannot be served; the message is a sentence."""


class Definition(NamedTuple):
    """Endpoint's ``argv``, in which {socket}, or {port} and {secret}, are replaced
    (`programs.program`); the ``folder`` that it starts in; its ``health`` path; the seconds within
    which it must ``load``, and that requests get to end (``drain``); the ``id`` of the replica."""

    argv: list[str]
    folder: str
    health: str
    load: float
    drain: float
    gateway: str
    ports: str
    id: str = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Definition:
        """Read the job's variables. Raises BadDefinition."""
        try:
            told: Any = json.loads(environ.get(VARIABLE, ""))
            argv = [str(word) for word in told["argv"]]
            health = str(told.get("health") or "/health")
            id_ = str(told.get("id") or "")
            numbers = float(told.get("load") or 900), float(told.get("drain") or 60)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadDefinition(f"The variable {VARIABLE} does not define an endpoint.") from None
        words = " ".join(argv)
        if not argv or ("{socket}" not in words and not {"{port}", "{secret}"} <= _braced(words)):
            raise BadDefinition(
                "The endpoint's command must listen on {socket}, or on {port} and ask for "
                "{secret}: other users of the node could use it otherwise."
            )
        if not health.startswith("/") or any(ord(letter) < 33 for letter in health):
            raise BadDefinition("The endpoint's health path must begin with '/'.")
        gateway = environ.get(GATEWAY, "")
        if "BEGIN CERTIFICATE" not in gateway:
            raise BadDefinition(f"The variable {GATEWAY} has no certificate of the gateway.")
        ports = environ.get(PORTS) or environ.get(PORTS_OF_KERNELS, "")
        return cls(argv, str(told.get("folder") or "~"), health, *numbers, gateway, ports, id_)


def _braced(words: str) -> set[str]:
    return {part for part in ("{port}", "{secret}") if part in words}
