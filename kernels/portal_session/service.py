"""Client of the portal's service, with the session's own token. Its calls block."""

from __future__ import annotations

import json
import os
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from .port import client_tls
from .portal_error import PortalError

TIMEOUT = 20.0  # seconds for one request
LARGEST = 512 * 1024  # bytes of one answer; a session with 64 GPUs is 15 kB
LONGEST_RETRY_AFTER = 300.0  # seconds of Retry-After that are honoured at most
# Codes of the portal's errors (portal/errors.py) after which nothing was done.
_AWAY = {"hub_unavailable", "starting"}
FILE_LARGEST = 4 * 1024**3  # bytes of one file
FILE_TIMEOUT = 600.0  # seconds for one file, in either direction


class ServiceError(PortalError):
    """Failed request to the service. ``retry_after``: the seconds for which it does not want to be
    asked. ``away``: the service or the Hub does not answer."""

    def __init__(
        self,
        message: str,
        status: int = 502,
        retry_after: float = 0.0,
        field: str = "",
        *,
        away: bool = False,
    ) -> None:
        super().__init__(message, status, field, away=away)
        self.retry_after = retry_after


class Address(NamedTuple):
    """Base URL of the service, and the token for it."""

    url: str
    token: str

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Address | None:
        """Read PORTAL_SERVICE_URL (as nodes reach it) and the Hub's token; return None without
        them."""
        url = environ.get("PORTAL_SERVICE_URL", "")
        token = environ.get("JUPYTERHUB_API_TOKEN", "")
        if urlsplit(url).scheme not in ("http", "https") or not token:
            return None
        return cls(url.rstrip("/"), token)


class Service:
    """Client of the service. Every call blocks for ``TIMEOUT`` seconds and a little at most."""

    def __init__(self, address: Address, environ: Mapping[str, str]) -> None:
        self._address = address
        self._environ = environ
        self._opener: OpenerDirector | None = None

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send ``method`` to ``api/v1/PATH`` and return the JSON object. Raises ServiceError."""
        deadline = time.monotonic() + TIMEOUT
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        with self._asked(method, path, data, "application/json", deadline) as response:
            return _an_object(_read(response, deadline))

    def download(self, path: str, target: Path) -> None:
        """Write the response of ``api/v1/PATH`` to the new file ``target``. Raises
        ServiceError."""
        deadline, size = time.monotonic() + FILE_TIMEOUT, 0
        with self._asked("GET", path, None, "", deadline) as response, target.open("xb") as file:
            while part := response.read1(1024 * 1024):
                size += len(part)
                if size > FILE_LARGEST or time.monotonic() > deadline:
                    raise ServiceError(
                        "The portal's file is too large, or its transfer takes too long.", 503
                    )
                file.write(part)
            promised = response.headers.get("Content-Length", "")
            if promised.isdecimal() and int(promised) != size:
                raise ServiceError("The portal's file was not received completely.", 503)

    def send(
        self, method: str, path: str, body: IO[bytes] | bytes, query: Mapping[str, str]
    ) -> None:
        """Send a file, from its current position to its end, to ``api/v1/PATH``. Raises
        ServiceError."""
        deadline = time.monotonic() + FILE_TIMEOUT
        kind, asked = "application/octet-stream", f"{path}?{urlencode(query)}"
        with self._asked(method, asked, body, kind, deadline) as response:
            _read(response, deadline)

    @contextmanager
    def _asked(
        self, method: str, path: str, data: Any, kind: str, deadline: float
    ) -> Iterator[Any]:
        """Yield the response to one request. Errors, those of reading it too, become
        ServiceError."""
        if self._opener is None:
            self._opener = opener(self._environ)
        headers = {
            "Authorization": f"token {self._address.token}",
            "User-Agent": "portal-session",
            # While a session moves to another job, two servers ask for the one session.
            "X-Portal-Job": self._environ.get("SLURM_JOB_ID", ""),
        }
        if kind:
            headers["Content-Type"] = kind
        if hasattr(data, "fileno"):
            left = os.fstat(data.fileno()).st_size - data.tell()
            headers["Content-Length"] = str(left)
        request = Request(  # noqa: S310 - Address lets http and https through
            f"{self._address.url}/api/v1/{path}", data=data, headers=headers, method=method
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT) as response:
                yield response
        except HTTPError as error:
            with error:
                raise _refusal(error, deadline) from None
        except (OSError, HTTPException) as error:
            # The reason holds internal addresses, which no page should show.
            raise ServiceError("The portal cannot be reached.", 503, away=True) from error


def opener(environ: Mapping[str, str]) -> OpenerDirector:
    """Build an opener without redirects and the environment's proxies. It trusts the Hub's
    certificates and the system's, since the service is reached through the portal's public address
    too."""
    context = client_tls(environ) or ssl.create_default_context()
    context.load_default_certs()
    return build_opener(ProxyHandler({}), _NoRedirect(), HTTPSHandler(context=context))


class _NoRedirect(HTTPRedirectHandler):
    """Handler that makes a redirect an error: the token goes to the service and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def retry_after(error: HTTPError) -> float:
    """Return Retry-After in seconds, at most LONGEST_RETRY_AFTER; 0.0 if it is not a number."""
    text = str(error.headers.get("Retry-After", ""))
    return min(float(text), LONGEST_RETRY_AFTER) if re.fullmatch("[0-9]{1,6}", text) else 0.0


def _read(response: Any, deadline: float) -> bytes:
    """Return the body; the deadline also ends one that comes byte by byte, as a socket's time-out
    would not."""
    parts, size = [], 0
    while part := response.read1(65536):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise ServiceError("The portal's answer is too long.")
        if time.monotonic() > deadline:
            raise ServiceError("The portal's answer takes too long.", 503)
    return b"".join(parts)


def _an_object(body: bytes) -> dict[str, Any]:
    try:
        payload = json.loads(body, parse_constant=_no_number) if body else {}
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise ServiceError("The portal's answer cannot be read.")
    return payload


def _no_number(name: str) -> None:
    """Raise ValueError: NaN and Infinity are not JSON, and browsers refuse them."""
    raise ValueError(name)


def _refusal(error: HTTPError, deadline: float) -> ServiceError:
    """Build an error from the service's own sentence and status; a proxy's page counts as no
    sentence."""
    try:
        details = _an_object(_read(error, deadline)).get("error")
    except (ServiceError, OSError, HTTPException):
        details = None
    details = details if isinstance(details, dict) else {}
    message = details.get("message")
    if isinstance(message, str) and message and 400 <= error.code < 600:
        away = details.get("code") in _AWAY
        return ServiceError(
            message[:2000], error.code, retry_after(error), _field(details), away=away
        )
    if error.code in (502, 503, 504):  # of the proxy
        return ServiceError(
            "The portal does not answer now. It may be restarting: try again in a minute.",
            503,
            retry_after(error),
            away=True,
        )
    return ServiceError(f"The portal answered with {error.code}.", 502, retry_after(error))


def _field(details: dict[str, Any]) -> str:
    field = details.get("field")
    return field[:100] if isinstance(field, str) else ""
