"""Client of the service's API, with a token, and of its event stream."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
from hub_client import Person

SERVICE = "/services/portal/"
API = f"{SERVICE}api/v1/"


class Event(NamedTuple):
    """Server-sent event; ``raw``: its lines as received."""

    kind: str
    id: str
    data: dict[str, Any]
    raw: str


class Caller(httpx.Client):
    """HTTP client with a new token of this person; paths are below ``api/v1/``: ``get("jobs")``."""

    def __init__(self, url: str, name: str) -> None:
        self.person = Person(url, name)
        assert self.person.api("GET", "/user").status_code == 200
        super().__init__(
            base_url=f"{url}{API}",
            headers={"Authorization": f"token {self.person.token}"},
            timeout=120,
            trust_env=False,
        )

    def items(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """Return all items of a list, fetched page by page."""
        items: list[dict[str, Any]] = []
        after: dict[str, str] = {}
        while True:
            response = self.get(path, params={**query, **after})
            assert response.status_code == 200, response.text
            body = response.json()
            items += body["items"]
            if body["next"] is None:
                assert len(items) == body["total"]
                return items
            after = {"after": body["next"]}

    def metrics(self, **headers: str) -> httpx.Response:
        """Fetch the metrics for Prometheus."""
        return self.get(f"{self.person.url}{SERVICE}metrics", headers=headers)

    @contextlib.contextmanager
    def events(self, **headers: str) -> Iterator[Iterator[Event]]:
        """Yield the event stream, open while the block runs."""
        with self.stream("GET", "events", headers=headers) as response:
            assert response.status_code == 200, response.read()
            yield read_events(response)


def read_events(response: httpx.Response) -> Iterator[Event]:
    """Yield the events of a response as they come, without comments."""
    lines: list[str] = []
    for line in response.iter_lines():
        if line:
            lines.append(line)
            continue
        fields = dict(field.split(": ", 1) for field in lines if not field.startswith(":"))
        if "data" in fields:
            raw = "\n".join(lines)
            yield Event(fields["event"], fields["id"], json.loads(fields["data"]), raw)
        lines = []


def error_of(response: httpx.Response) -> dict[str, str]:
    """Return the error of a response, which must be JSON with only a code, a message and, of a
    field that is wrong, its name; of a failure, the id that its header has too."""
    assert response.headers["content-type"].startswith("application/json"), response.headers
    body = response.json()
    assert set(body) == {"error"}
    if response.status_code >= 500:
        assert body["error"].pop("request_id") == response.headers["X-Request-ID"]
    assert body["error"].keys() - {"field"} == {"code", "message"}
    assert "Traceback" not in response.text
    return dict(body["error"])
