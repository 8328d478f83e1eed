"""The portal's service, as a session reaches it: with its own token, and from no event loop."""

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

TIMEOUT = 20.0  # seconds for one request
LARGEST = 512 * 1024  # bytes of one answer; a session with 64 GPUs is 15 kB
LONGEST_PEACE = 300.0  # seconds that the service may ask for
FILE_LARGEST = 4 * 1024**3  # bytes of one file
FILE_TIMEOUT = 600.0  # seconds for one file, in either direction


class ServiceError(Exception):
    """What went wrong, in a sentence for the person; the status to answer with; for how many
    seconds the service wants peace."""

    def __init__(self, message: str, status: int = 502, peace: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.peace = peace


class Address(NamedTuple):
    """Where the service is, and the token for it."""

    url: str
    token: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Address | None:
        """From PORTAL_SERVICE_URL (as nodes reach it) and the Hub's token; None without them."""
        url = environ.get("PORTAL_SERVICE_URL", "")
        token = environ.get("JUPYTERHUB_API_TOKEN", "")
        if urlsplit(url).scheme not in ("http", "https") or not token:
            return None
        return cls(url.rstrip("/"), token)


class Service:
    """Asks the service. Every call blocks for up to ``TIMEOUT`` seconds and a little."""

    def __init__(self, address: Address, environ: Mapping[str, str]) -> None:
        self._address = address
        self._environ = environ
        self._opener: OpenerDirector | None = None

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that ``method`` on ``api/v1/PATH`` answers. Raises ServiceError."""
        deadline = time.monotonic() + TIMEOUT
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        with self._asked(method, path, data, "application/json", deadline) as answer:
            return _an_object(_read(answer, deadline))

    def download(self, path: str, target: Path) -> None:
        """Write what ``api/v1/PATH`` answers into the new file ``target``. Raises ServiceError."""
        deadline, size = time.monotonic() + FILE_TIMEOUT, 0
        with self._asked("GET", path, None, "", deadline) as answer, target.open("xb") as file:
            while part := answer.read1(1024 * 1024):
                size += len(part)
                if size > FILE_LARGEST or time.monotonic() > deadline:
                    raise ServiceError("The portal's file is too large, or takes too long.", 503)
                file.write(part)
            promised = answer.headers.get("Content-Length", "")
            if promised.isdecimal() and int(promised) != size:
                raise ServiceError("The portal's file did not come whole.", 503)

    def send(
        self, method: str, path: str, body: IO[bytes] | bytes, query: Mapping[str, str]
    ) -> None:
        """Send a file, from where it stands to its end, to ``api/v1/PATH``. Raises ServiceError."""
        deadline = time.monotonic() + FILE_TIMEOUT
        kind, asked = "application/octet-stream", f"{path}?{urlencode(query)}"
        with self._asked(method, asked, body, kind, deadline) as answer:
            _read(answer, deadline)

    @contextmanager
    def _asked(
        self, method: str, path: str, data: Any, kind: str, deadline: float
    ) -> Iterator[Any]:
        """The answer to one request; errors, in reading it too, are a ServiceError."""
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
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                yield answer
        except HTTPError as error:
            with error:
                raise _refusal(error, deadline) from None
        except (OSError, HTTPException) as error:
            # The reason holds addresses of the inside: it stays out of what a page shows.
            raise ServiceError("The portal cannot be reached.", 503) from error


def opener(environ: Mapping[str, str]) -> OpenerDirector:
    """Neither redirects nor the environment's proxies; certificates as for the Hub, and those of
    the system, since the service is reached through the portal's public address too."""
    context = client_tls(environ) or ssl.create_default_context()
    context.load_default_certs()
    return build_opener(ProxyHandler({}), _NoRedirect(), HTTPSHandler(context=context))


class _NoRedirect(HTTPRedirectHandler):
    """The token goes to the service and nowhere else: a redirect is an error."""

    def redirect_request(self, *_: Any) -> None:
        return None


def peace(error: HTTPError) -> float:
    """Retry-After in seconds, within reason."""
    text = str(error.headers.get("Retry-After", ""))
    return min(float(text), LONGEST_PEACE) if re.fullmatch("[0-9]{1,6}", text) else 0.0


def _read(answer: Any, deadline: float) -> bytes:
    """The body; a socket's own time-out would not end one that comes byte by byte."""
    parts, size = [], 0
    while part := answer.read1(65536):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise ServiceError("The portal's answer is too long.")
        if time.monotonic() > deadline:
            raise ServiceError("The portal's answer takes too long.", 503)
    return b"".join(parts)


def _an_object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body, parse_constant=_no_number) if body else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ServiceError("The portal's answer cannot be read.")
    return found


def _no_number(name: str) -> None:
    """NaN and Infinity are no JSON, and browsers refuse them."""
    raise ValueError(name)


def _refusal(error: HTTPError, deadline: float) -> ServiceError:
    """The service's own sentence and status; a proxy's page in its place is no sentence."""
    try:
        said = _an_object(_read(error, deadline)).get("error")
    except (ServiceError, OSError, HTTPException):
        said = None
    message = said.get("message") if isinstance(said, dict) else None
    if isinstance(message, str) and message and 400 <= error.code < 600:
        return ServiceError(message[:2000], error.code, peace(error))
    return ServiceError(
        f"The portal answered with {error.code}.",
        503 if error.code in (502, 503, 504) else 502,
        peace(error),
    )
