"""Someone who asks the service's API with a token, and its event stream."""

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
    """One server-sent event; ``raw`` are its lines as they came."""

    kind: str
    id: str
    data: dict[str, Any]
    raw: str


class Caller(httpx.Client):
    """``get("jobs")`` asks below ``api/v1/``; the token is a new one of this person."""

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
        """All items of a list, page by page."""
        found: list[dict[str, Any]] = []
        after: dict[str, str] = {}
        while True:
            answer = self.get(path, params={**query, **after})
            assert answer.status_code == 200, answer.text
            body = answer.json()
            found += body["items"]
            if body["next"] is None:
                assert len(found) == body["total"]
                return found
            after = {"after": body["next"]}

    def metrics(self, **headers: str) -> httpx.Response:
        """The exposition for Prometheus."""
        return self.get(f"{self.person.url}{SERVICE}metrics", headers=headers)

    @contextlib.contextmanager
    def events(self, **headers: str) -> Iterator[Iterator[Event]]:
        """The event stream, open as long as this."""
        with self.stream("GET", "events", headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            yield read_events(answer)


def read_events(answer: httpx.Response) -> Iterator[Event]:
    """The events of an answer as they come; comments are left out."""
    lines: list[str] = []
    for line in answer.iter_lines():
        if line:
            lines.append(line)
            continue
        words = dict(one.split(": ", 1) for one in lines if not one.startswith(":"))
        if "data" in words:
            raw = "\n".join(lines)
            yield Event(words["event"], words["id"], json.loads(words["data"]), raw)
        lines = []


def error_of(answer: httpx.Response) -> dict[str, str]:
    """The error of an answer, which is JSON and nothing but a code and a sentence."""
    assert answer.headers["content-type"].startswith("application/json"), answer.headers
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert "Traceback" not in answer.text
    return dict(body["error"])
