"""What is beside endpoints: a trial with one's own login, figures, choices, and what admins may."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from session_endpoints import person
from test_endpoints import TOKENS, VERSION, Site, site
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from portal.models.scope import JOBS_MANAGE, SESSIONS_READ
from portal.work.endpoint.figures import EndpointFigures, EndpointFigureTable
from portal.work.endpoint.tables import EndpointTable

__all__ = ["site"]


class _Model(RequestHandler):
    """Gateway that says what it was asked."""

    def post(self) -> None:
        self.set_status(int(self.get_argument("status", "200")))
        asked = {"token": self.request.headers["Authorization"], "path": self.request.uri}
        self.finish({**asked, "body": json.loads(self.request.body)})

    def get(self) -> None:
        self.set_header("Content-Type", "text/plain")
        self.finish("x" * 100_000)


@pytest.fixture
async def gateway(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Address of a gateway, which the service is told of."""
    socket, port = bind_unused_port()
    server = HTTPServer(Application([("/services/portal/models/.*", _Model)]))
    server.add_socket(socket)
    monkeypatch.setenv("PORTAL_GATEWAY_URL", f"http://127.0.0.1:{port}")
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def admins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(TOKENS, "reader", person("reader", SESSIONS_READ))
    monkeypatch.setitem(TOKENS, "grace", person("grace", SESSIONS_READ, JOBS_MANAGE))
    yield


async def test_a_trial_goes_through_the_gateway_with_the_own_login(
    gateway: Any, site: Site
) -> None:
    await site.done("PUT", body={"groups": ["lab"]})
    await site.done("POST", "models/embed/versions", VERSION)
    shown = await site.done("GET", "models/embed/trial", who="barbara")
    assert (shown["owner"], shown["example"]) == ("ada", VERSION["example"])
    answer = await site.done("POST", "models/embed/trial", VERSION["example"], who="barbara")
    assert (answer["status"], answer["cut"]) == (200, False)
    assert json.loads(answer["body"]) == {
        "token": "Bearer barbara",
        "path": "/services/portal/models/embed/v1/embeddings",
        "body": {"input": "hello"},
    }
    asked = {"method": "POST", "path": "/v1?status=500", "body": {}}
    assert (await site.done("POST", "models/embed/trial", asked))["status"] == 500
    long = await site.done("POST", "models/embed/trial", {"path": "/long"})
    assert (len(long["body"]), long["cut"]) == (65_536, True)
    for path in ("/../other/x", "/x#y"):
        assert "must not" in await site.refused(400, "POST", "models/embed/trial", {"path": path})
    for method, body in (("GET", None), ("POST", {"path": "/"})):
        words = await site.refused(404, method, "models/embed/trial", body, who="carl")
        assert words == "There is no endpoint 'embed'."
        await site.refused(404, method, "models/embed/trial", body, who="grace")


async def test_a_gateway_that_is_away_is_said(gateway: Any, site: Site) -> None:
    await site.done("PUT", body={})
    gateway.stop()
    words = await site.refused(503, "POST", "models/embed/trial", {"path": "/"})
    assert "did not answer properly" in words


async def test_admins_see_all_and_delete_with_a_reason(site: Site) -> None:
    await site.done("PUT", body={"least": 1})
    assert (await site.done("GET", "models", who="grace"))["items"] == []
    (seen,) = (await site.done("GET", "models?all=true", who="reader"))["items"]
    assert (seen["owner"], seen["mine"], seen["state"]) == ("ada", False, "empty")
    assert "not allowed" in await site.refused(403, "GET", "models?all=true", who="barbara")
    assert (await site.done("GET", who="reader"))["owner"] == "ada"
    await site.refused(404, "GET", who="barbara")
    await site.refused(404, "DELETE", who="reader")
    assert "Say why" in await site.refused(400, "DELETE", who="grace")
    # Nothing else: their own endpoint of this name would be changed by mistake.
    assert "Choose another name" in await site.refused(409, "PUT", body={"least": 0}, who="grace")
    await site.refused(404, "POST", "models/embed/versions", VERSION, who="grace")
    await site.done("DELETE", "models/embed?reason=it+idles", who="grace")
    entries, _ = await site.store.audit.find()
    entry = next(each for each in entries if each.outcome.value == "done")
    assert (entry.action, entry.owner, entry.detail) == ("delete-endpoint", "ada", "it idles")


async def test_figures_are_for_the_owner_and_admins(site: Site) -> None:
    await site.done("PUT", body={"everyone": True})
    now = time.time()
    await site.store.table(EndpointTable).change("embed", created_at=now - 7200)
    rows = [
        EndpointFigures(
            endpoint="embed", at=at, seconds=60, requests=6, gpus=1, replicas=1,
            latencies=(6, *(0,) * 15),
        )
        for at in (now - 60, now - 3700, now - 9000)  # the last is of an earlier endpoint
    ]  # fmt: skip
    await site.store.table(EndpointFigureTable).add_figures(rows)
    told = await site.done("GET", "models/embed/figures")
    assert (told["requests"], len(told["items"])) == (12, 2)
    assert told["gpu_hours"] == pytest.approx(2 / 60)
    hour = await site.done("GET", f"models/embed/figures?since={now - 3600}", who="reader")
    assert (hour["requests"], hour["items"][0]["requests"]) == (6, pytest.approx(0.1))
    assert "belongs to ada" in await site.refused(403, "GET", "models/embed/figures", who="carl")
    await site.refused(400, "GET", "models/embed/figures?since=-1")
    answer = await site.ask("GET", "models/embed/figures.csv")
    lines = answer.text.splitlines()
    assert lines[0].startswith("at,seconds,requests,errors") and len(lines) == 3
    assert ",6,0,0,0.0025,0.00475," in lines[1]


async def test_a_version_of_an_environment_that_is_gone_is_refused(site: Site) -> None:
    await site.done("PUT", body={})
    body = {**VERSION, "environment_version": 9}
    words = await site.refused(400, "POST", "models/embed/versions", body)
    assert words.startswith("Version 9 of 'Lab' can no longer be used.")
    assert words.endswith("Choose the current version.")
