"""Client of the API of the service, the Hub or a session, as the owner of a token."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from ..errors import NotFound, PortalError, Unavailable

_TIMEOUT = 30  # seconds


class ServiceApi:
    """API below ``path`` at the Hub's address ``url``, with an API ``token`` ("": none); by default
    that of the service. ``host``: that of a session, which need not resolve."""

    def __init__(
        self, url: str, token: str, path: str = "services/portal/api/v1", host: str = ""
    ) -> None:
        self._base = f"{url}/{path}/"
        self._headers = {"Content-Type": "application/json"}
        self._headers |= {"Authorization": f"token {token}"} if token else {}
        self._headers |= {"Host": host} if host else {}

    def get(self, path: str) -> Any:
        """Return the response to a GET request. Raises as ``post`` does."""
        return self._ask("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        """Return the response to a POST request with ``body`` as JSON.

        Raises Unavailable if it does not answer or cannot now, NotFound, PortalError with
        its sentence if it refuses otherwise.
        """
        return self._ask("POST", path, {} if body is None else body)

    def put(self, path: str, body: Any) -> Any:
        """Return the response to a PUT request. Raises as ``post`` does."""
        return self._ask("PUT", path, body)

    def delete(self, path: str, body: Any = None) -> Any:
        """Return the response to a DELETE request. Raises as ``post`` does."""
        return self._ask("DELETE", path, body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - http, made by the demo
            self._base + path,
            data=None if body is None else json.dumps(body).encode(),
            headers=self._headers,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise _refused(error) from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"The portal does not answer: {error}") from None


def _refused(error: urllib.error.HTTPError) -> PortalError:
    """Return the service's refusal; Unavailable where the answer has no sentence."""
    kinds = {404: NotFound, 503: Unavailable}
    try:
        answer = json.load(error)
        # The Hub and Jupyter have no object "error".
        message = answer["error"]["message"] if "error" in answer else answer["message"]
        return kinds.get(error.code, PortalError)(message or f"{error.code}: {error.reason}")
    except (OSError, ValueError, KeyError, TypeError):
        return Unavailable(f"The portal answers with status {error.code}.")
