"""Client of the session's broker (`broker`), over its Unix socket. Its calls block."""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any

from ..portal_error import PortalError

VARIABLE = "PORTAL_KERNEL_BROKER"  # path of the socket; only this account can reach it
TIMEOUT = 30.0  # seconds: the portal answers within 20
LARGEST = 1024 * 1024  # bytes of an answer


class BrokerError(PortalError):
    """Failed request to the broker."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._path)


class Broker:
    """The session's broker, which asks the portal with the session's token."""

    def __init__(self, path: str = "") -> None:
        self._path = path or os.environ.get(VARIABLE, "")

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the JSON object of its answer. Raises BrokerError."""
        if not self._path:
            raise BrokerError("Kernels in jobs of their own can only be started in a session.")
        connection = _Connection(self._path)
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": "application/json"},
            )
            response = connection.getresponse()
            answer = json.loads(response.read(LARGEST) or b"{}")
        except (OSError, http.client.HTTPException, ValueError):
            raise BrokerError("The session's server does not answer.") from None
        finally:
            connection.close()
        if response.status >= 400 or not isinstance(answer, dict):
            refusal = answer if isinstance(answer, dict) else {}
            raise BrokerError(
                str(refusal.get("message") or f"The session's server answered {response.status}."),
                response.status,
                str(refusal.get("field") or ""),
                away=bool(refusal.get("away")),
            )
        return answer
