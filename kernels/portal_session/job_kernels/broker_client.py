"""Client of the session's broker (`broker`), over its Unix socket. Its calls block."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from typing import Any, Callable

VARIABLE = "PORTAL_KERNEL_BROKER"  # path of the socket; only this account can reach it
TIMEOUT = 30.0  # seconds: the portal answers within 20
LARGEST = 1024 * 1024  # bytes of an answer
PAUSE = 2.0  # seconds between two requests while the portal is away
AWAY = "The portal does not answer. The request is repeated for up to {} min."


class BrokerError(Exception):
    """Failed request: a sentence for the person, the ``status``, and the ``field`` of the request
    that is wrong, or "". ``away``: the portal does not answer (`ServiceError`)."""

    def __init__(
        self, message: str, status: int = 503, field: str = "", *, away: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.field, self.away = status, field, away


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


class PatientBroker(Broker):
    """Broker that repeats a request while the portal is away, for ``patience`` seconds: for
    requests that may come twice. ``tell`` is called with a sentence when it begins to wait."""

    def __init__(
        self, path: str, patience: float, tell: Callable[[str], None] = lambda sentence: None
    ) -> None:
        super().__init__(path)
        self._patience, self._tell = patience, tell
        self._until = 0.0  # monotonic time of the end of the patience, once the portal was away

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """See Broker.ask."""
        while True:
            try:
                return super().ask(method, path, body)
            except BrokerError as error:
                if not error.away:
                    raise
                now = time.monotonic()
                if not self._until:
                    self._until = now + self._patience
                    self._tell(AWAY.format(max(1, round(self._patience / 60))))
                if now >= self._until:
                    raise
                time.sleep(PAUSE)
