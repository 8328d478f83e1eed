"""Client of the service's API, as the demo's own service account."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from ..errors import NotFound, PortalError, Unavailable

_TIMEOUT = 30  # seconds


class ServiceApi:
    """API of the service at the Hub's address ``url``, with an API ``token``."""

    def __init__(self, url: str, token: str) -> None:
        self._base = f"{url}/services/portal/api/v1/"
        self._token = token

    def get(self, path: str) -> Any:
        """Return the response to a GET request. Raises as ``post`` does."""
        return self._ask("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        """Return the response to a POST request with ``body`` as JSON.

        Raises Unavailable if the service does not answer or cannot now, NotFound, PortalError with
        its sentence if it refuses otherwise.
        """
        return self._ask("POST", path, {} if body is None else body)

    def put(self, path: str, body: Any) -> Any:
        """Return the response to a PUT request. Raises as ``post`` does."""
        return self._ask("PUT", path, body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - http, made by the demo
            self._base + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise _refused(error) from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"The portal's service does not answer: {error}") from None


def _refused(error: urllib.error.HTTPError) -> PortalError:
    """Return the service's refusal; Unavailable where the answer is not the service's own."""
    kinds = {404: NotFound, 503: Unavailable}
    try:
        message = str(json.load(error)["error"]["message"])
        return kinds.get(error.code, PortalError)(message)
    except (OSError, ValueError, KeyError, TypeError):
        return Unavailable(f"The portal's service answers with status {error.code}.")
