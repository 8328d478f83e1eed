"""Filling the Hub's memory without a login: bodies and headers that nobody wants to read."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.proxy import ConfigurableHTTPProxy
from served import Served, served
from tornado.web import HTTPError, RequestHandler

from portal.paths import data_path
from portal.proxy import proxy_variables
from portal.web import cookies
from portal.web.application import BoundedApplication
from spawners.config.proxy import SessionProxy
from spawners.hub_patches import body_limits
from spawners.web.hub_application import HubRequests

LIMIT = 64 * 1024
METHODS = ["POST", "PUT", "PATCH", "DELETE"]
KINDS = [
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json",
    "text/plain",
    "",
]


class _Reads(RequestHandler):
    """Says how much was read."""

    def post(self) -> None:
        self.finish(str(len(self.request.body)))

    put = patch = delete = post


class _ReadsMore(_Reads):
    max_body = 4 * LIMIT


class _ReadsLess(_Reads):
    max_body = 100


@pytest.fixture
async def hub() -> AsyncIterator[Served]:
    rows = [("/more", _ReadsMore), ("/less", _ReadsLess), ("/hub/.*", _Reads)]
    async with served(BoundedApplication(rows, max_body=LIMIT)) as running:
        yield running


def _headers(kind: str) -> list[tuple[str, str]]:
    return [("Content-Type", kind)] if kind else []


@pytest.mark.parametrize("size", [LIMIT + 1, 3 * LIMIT, 40 * LIMIT])
@pytest.mark.parametrize("chunk", [0, 1024, 70_000])
@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_refused_in_a_sentence(hub: Served, kind: str, chunk: int, size: int) -> None:
    answer = await hub.ask(
        "POST", "/hub/login", headers=_headers(kind), body=b"a" * size, chunk=chunk
    )
    assert answer.status == 413
    sentence = f"The request is too large: at most {LIMIT} bytes are accepted."
    assert json.loads(answer.text) == {"status": 413, "message": sentence}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunk", [0, 999])
async def test_no_method_takes_it(hub: Served, method: str, chunk: int) -> None:
    answer = await hub.ask(method, "/hub/api/users", body=b"a" * (LIMIT + 1), chunk=chunk)
    assert answer.status == 413
    answer = await hub.ask(method, "/nowhere", body=b"a" * (LIMIT + 1), chunk=chunk)
    assert answer.status == 413


@pytest.mark.parametrize("chunk", [0, 1, 4096])
async def test_the_largest_is_read(hub: Served, chunk: int) -> None:
    size = LIMIT if chunk != 1 else 2000
    answer = await hub.ask("POST", "/hub/login", body=b"a" * size, chunk=chunk)
    assert (answer.status, answer.text) == (200, str(size))


@pytest.mark.parametrize("chunk", [0, 1024])
@pytest.mark.parametrize(("path", "limit"), [("/more", 4 * LIMIT), ("/less", 100)])
async def test_a_route_has_its_own(hub: Served, path: str, limit: int, chunk: int) -> None:
    assert (await hub.ask("POST", path, body=b"a" * limit, chunk=chunk)).text == str(limit)
    assert (await hub.ask("POST", path, body=b"a" * (limit + 1), chunk=chunk)).status == 413


async def test_a_browser_gets_a_page(hub: Served) -> None:
    headers = [("Accept", "text/html,*/*")]
    answer = await hub.ask("POST", "/hub/login", headers=headers, body=b"a" * 2 * LIMIT)
    assert answer.status == 413 and "<h1>413 : Request Entity Too Large</h1>" in answer.text


@pytest.mark.parametrize("chunk", [0, 65536])
async def test_nothing_of_it_is_kept(hub: Served, chunk: int) -> None:
    body = b"a" * (24 * 1024 * 1024)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        answer = await hub.ask("POST", "/hub/login", body=body, chunk=chunk or 0)
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert answer.status == 413
    assert most < len(body) / 2


async def test_a_length_that_is_a_lie_ends_at_once(hub: Served) -> None:
    answer = await hub.ask("POST", "/hub/login", headers=[("Content-Length", str(10**12))])
    assert answer.status == 413 and "too large" in answer.text
    for length in ("-1", "1e9", "0x10", "9" * 40, "1, 2", "²"):
        answer = await hub.ask("POST", "/hub/login", headers=[("Content-Length", length)])
        assert answer.status in (0, 400, 413), length
    both = [("Content-Length", "5"), ("Transfer-Encoding", "chunked")]
    assert (await hub.ask("POST", "/hub/login", headers=both)).status in (0, 400)


@pytest.mark.parametrize("size", [70_000, 200_000, 900_000])
@pytest.mark.parametrize("name", ["X-Long", "Authorization", "User-Agent", "Accept-Language"])
async def test_headers_are_refused_in_a_sentence(hub: Served, name: str, size: int) -> None:
    answer = await hub.ask("GET", "/hub/login", headers=[(name, "a" * size)])
    assert answer.status == 431 and "headers are larger" in answer.text


@pytest.mark.parametrize("size", [66_000, 900_000])
@pytest.mark.parametrize("form", ["/hub/{}", "/hub/login?next={}", "/{}"])
async def test_an_address_is_refused_and_not_logged(hub: Served, form: str, size: int) -> None:
    answer = await hub.ask("GET", form.format("a" * size))
    assert answer.status == 414 and "address is longer" in answer.text


async def test_more_than_a_browser_can_send_is_cut_off(hub: Served) -> None:
    answer = await hub.ask("GET", "/hub/login", headers=[("X-Long", "a" * 2_000_000)])
    assert answer.status in (0, 400)


# -- what is kept, and what holds it all -----------------------------------------------------------


@pytest.mark.parametrize("field", body_limits.LENGTHS)
@pytest.mark.parametrize("many", [False, True])
def test_what_is_kept_has_a_length(field: str, many: bool) -> None:
    most = body_limits.LENGTHS[field]
    for size in (1, most):
        body_limits.check({field: ["a", "a" * size] if many else "a" * size})
    for size in (most + 1, 60_000):
        with pytest.raises(HTTPError) as refused:
            body_limits.check({field: ["a", "a" * size] if many else "a" * size})
        assert refused.value.status_code == 400
        assert f"'{field}' is too long: at most {most} characters are allowed." in str(
            refused.value
        )


@pytest.mark.parametrize("body", [None, 1, "x" * 9999, ["x" * 9999], {}, {"note": None}, {"x": {}}])
def test_what_has_no_fields_is_for_others_to_judge(body: Any) -> None:
    body_limits.check(body)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(APIHandler, "get_json_body", APIHandler.get_json_body)
    for handler in body_limits.BODIES:
        monkeypatch.setattr(handler, "max_body", 0, raising=False)
    body_limits.apply()


def test_jupyterhub_looks_at_lengths(bound: None) -> None:
    asked: Any = SimpleNamespace(request=SimpleNamespace(body=json.dumps({"note": "a"}).encode()))
    assert APIHandler.get_json_body(asked) == {"note": "a"}
    asked.request.body = json.dumps({"note": "a" * 2000}).encode()
    with pytest.raises(HTTPError, match="too long"):
        APIHandler.get_json_body(asked)


@pytest.mark.parametrize("handler", body_limits.BODIES, ids=lambda kind: kind.__name__)
async def test_forms_and_launches_have_smaller_bodies(bound: None, handler: Any) -> None:
    kind = type("Kind", (handler,), {})  # as our own and the site's are made
    application = BoundedApplication([("/", kind)], max_body=1024 * 1024)
    async with served(application) as hub:
        for chunk in (0, 8000):
            answer = await hub.ask("POST", "/", body=b"a" * (64 * 1024 + 1), chunk=chunk)
            assert answer.status == 413


@pytest.mark.parametrize("unit", ["data-scientist-portal", "data-scientist-portal-proxy"])
def test_units_have_an_end_of_memory(unit: str) -> None:
    text = (data_path("deploy") / "systemd" / f"{unit}.service").read_text()
    assert re.search(r"^MemoryMax=\d+G$", text, re.MULTILINE)
    assert re.search(r"^Restart=(always|on-failure)$", text, re.MULTILINE), "an attack ends it"


def test_the_proxy_reads_as_much_as_the_hub() -> None:
    unit = data_path("deploy") / "systemd" / "data-scientist-portal-proxy.service"
    assert re.search(r"^ExecStart=\S+/portal proxy ", unit.read_text(), re.MULTILINE)
    assert f"--max-http-header-size={cookies.HEADERS} " in proxy_variables()["NODE_OPTIONS"]


@pytest.mark.parametrize("site", ["", "--trace-warnings", "--max-http-header-size=5"])
async def test_a_proxy_that_the_hub_starts_does_too(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = []

    async def start(_: Any) -> None:
        began.append(os.environ["NODE_OPTIONS"])

    monkeypatch.setattr(ConfigurableHTTPProxy, "start", start)
    monkeypatch.setenv("NODE_OPTIONS", site)
    await SessionProxy().start()
    limit = 5 if site.endswith("=5") else cookies.HEADERS
    assert began[0].endswith(f"--max-http-header-size={limit}") and began[0].startswith(site)
    assert os.environ.get("NODE_OPTIONS", "") == site


def test_the_hub_has_a_limit_without_any_setting() -> None:
    limits: Any = HubRequests()
    assert limits.max_body == 1024 * 1024
