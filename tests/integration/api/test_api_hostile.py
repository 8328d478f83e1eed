"""Requests that no good client makes. Each gets a status below 500 and a sentence in JSON."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from api_client import API, SERVICE, Caller, error_of

LISTS = ("jobs", "gpus", "nodes", "sessions", "announcements")
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def direct(demo: Any, ada: Caller) -> Iterator[httpx.Client]:
    """Ada without the proxy between, which answers some of what follows by itself."""
    port = json.loads((demo.home.demo / "ports.json").read_text())["service"]
    url = f"http://127.0.0.1:{port}{API}"
    with httpx.Client(base_url=url, headers=ada.headers, timeout=120, trust_env=False) as client:
        yield client


def refused(answer: httpx.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    return error_of(answer)["message"]


# -- queries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=501", "limit=1e3", "limit=", "limit=50.5", "limit=%D9%A5x",
        f"limit={'9' * 5000}", "limit=0x10", "limit=true", "limit=NaN",
        "after=", "after=-1", "after=AAAA", "after=o5", "after=%00", f"after={'A' * 500}",
        "after=bzk5OTk5OTk5OTk5OTk5OTk",  # an offset beyond every number that a database takes
        "limit=1&limit=1", "limit=1&limit=2",
        "nothing=1", "__class__=x", "limit%00=1", "%ff=1", "limit=%ff",
    ],
)  # fmt: skip
def test_queries_that_are_wrong(ada: Caller, path: str, query: str) -> None:
    message = refused(ada.get(f"{path}?{query}"))
    assert len(message) < 400


@pytest.mark.parametrize("path", ["jobs", "gpus", "nodes", "sessions"])
@pytest.mark.parametrize(
    "query", ["sort=__class__", "sort=--id", "sort=", "sort=id;drop", "sort=%00"]
)
def test_orders_that_are_not_offered(ada: Caller, path: str, query: str) -> None:
    refused(ada.get(f"{path}?{query}"))


@pytest.mark.parametrize("path", ["jobs", "gpus", "nodes", "sessions", "jobs.csv", "gpus.csv"])
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("%00", 400),
        ("%ed%a0%80", 400),  # half of a surrogate pair, as UTF-8 never has it
        ("%ff", 400),
        ("x" * 201, 400),
        ("%F0%9F%98%80", 200),
        ("%25_%5C%27%22--%3B", 200),
        (".*%5B", 200),
        ("%E2%80%AE", 200),
        ("", 200),
    ],
)
def test_texts(ada: Caller, path: str, text: str, status: int) -> None:
    answer = ada.get(f"{path}?text={text}")
    assert answer.status_code == status, answer.text
    if status == 400:
        error_of(answer)


def test_a_cursor_beyond_the_end_finds_nothing(ada: Caller) -> None:
    body = ada.get("gpus?after=bzk5OTk5").json()  # "o99999"
    assert (body["items"], body["next"], body["total"]) == ([], None, 20)


def test_a_very_long_address(direct: httpx.Client) -> None:
    """Within what an address may have (64 kB), and beyond what is read of headers (1 MiB)."""
    refused(direct.get(f"jobs?text={'x' * 50_000}"))
    where = urlsplit(str(direct.base_url))
    with socket.create_connection((where.hostname, where.port), 120) as connection:
        connection.sendall(f"GET {API}jobs?text={'x' * 2_000_000} HTTP/1.1\r\n".encode())
        with contextlib.suppress(ConnectionError):
            assert not connection.recv(100).startswith(b"HTTP/1.1 5")
    assert direct.get("jobs").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "start=nan", "start=inf", "end=-1", "start=1e300", "start=5&end=5", "start=5&end=1",
        "start=0&end=99999999999", "points=0", "points=1001", "points=1.5",
        "start=1&end=200000000",
    ],
)  # fmt: skip
def test_times_that_cannot_be(ada: Caller, query: str) -> None:
    refused(ada.get(f"history?{query}"))
    refused(ada.get(f"history.csv?{query}"))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "stream=x",
        "stream=x&version=-1",
        "stream=x&version=1e30",
        f"stream={'x' * 101}&version=1",
    ],
)
def test_versions_that_cannot_be(ada: Caller, query: str) -> None:
    refused(ada.get(f"changes?{query}"))


# -- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "jobs/1%2F2", "jobs/..%2f..%2fmetrics", "jobs/%00", "jobs/1%00", "jobs/-1", "jobs/1;2",
        "jobs/1%0a", "jobs/" + "1" * 1000, "jobs/\u0661", "nodes/..", "nodes/%2e%2e%2fjobs",
        "nodes/gpu01%20", "nodes/ALL", "nodes/gpu[01-04]", "nodes/gpu01,gpu02", "nodes/%E2%98%83",
        "sessions/..%2Fx", "sessions/%00", "jobs.CSV", "jobsXcsv", "jobs//", "jobs/1/2/3",
        "openapi.yaml", "%6aobs/x",
    ],
)  # fmt: skip
def test_addresses_of_nothing(ada: Caller, path: str) -> None:
    refused(ada.get(path), 404)


def test_half_of_a_character_in_an_address(direct: httpx.Client) -> None:
    """(The proxy takes these for itself: decodeURIComponent in Node.js fails, and it says 500.)"""
    for path in ("jobs/%ff", "nodes/%ed%a0%80", "%ff"):
        answer = direct.get(path)
        assert answer.status_code in (400, 404)
        error_of(answer)


def test_addresses_are_not_case_blind_and_a_slash_at_the_end_is_fine(ada: Caller) -> None:
    assert ada.get("jobs/").status_code == 200
    assert ada.get("JOBS").status_code == 404


# -- methods ------------------------------------------------------------------------------------

WRONG = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE", "X" * 50)  # no CONNECT


@pytest.mark.parametrize("method", WRONG)
def test_methods_that_are_not_there(direct: httpx.Client, method: str) -> None:
    for path in ("jobs", "board", "events", "jobs.csv", "openapi.json"):
        answer = direct.request(method, path, content=b"{}")
        refused(answer, 405)
        assert answer.headers["allow"] == "GET, HEAD"


def test_get_where_only_post_is(ada: Caller) -> None:
    answer = ada.get("jobs/1/cancel")
    refused(answer, 405)
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path",
    ["cluster", "board", "jobs", "gpus", "nodes", "nodes/gpu01", "jobs.csv", "gpus.csv", "history",
     "events", "openapi.json", "environments", "changes?stream=x&version=1", "sessions"],
)  # fmt: skip
def test_head(ada: Caller, path: str) -> None:
    answer = ada.head(path, timeout=120)
    assert answer.status_code == 200
    assert answer.content == b""


def test_head_of_an_error(ada: Caller) -> None:
    assert ada.head("jobs/99999999").status_code == 404
    assert ada.head("jobs?limit=0").status_code == 400


# -- bodies -------------------------------------------------------------------------------------

NOBODYS = "jobs/999999999/cancel"  # well formed, and there is no such job


def test_a_good_body_for_a_job_that_is_not_there(ada: Caller) -> None:
    refused(ada.post(NOBODYS, json={"reason": "x"}), 404)


@pytest.mark.parametrize(
    "body",
    [
        b"null", b"[]", b'"x"', b"1", b"{", b"{]", b"\xff\xfe", b'{"reason": "\xff"}',
        b'{"reason": 1}', b'{"reason": null}', b'{"other": 1}', b'{"reason": "x\\u0000y"}',
        b'{"reason": "\\ud800"}', b'{"reason": NaN}', b'{"__class__": "x"}', b'{"reason":"a"}x',
        b"[" * 100_000, b'{"reason":' * 10_000, b'{"reason": "' + b"x" * 500 + b'"}',
        b'{"reason": "a\\nb"}', b"\x00", b'{"reason": "' + b"9" * 300 + b'"}',
    ],
)  # fmt: skip
def test_bodies_that_are_wrong(ada: Caller, body: bytes) -> None:
    answer = ada.post(NOBODYS, content=body, headers={"Content-Type": "application/json"})
    message = refused(answer)
    assert len(message) < 500


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "text/xml", "multipart/form-data", "multipart/form-data; boundary=x",
     "application/octet-stream", "x", "application/json-patch+json"],
)  # fmt: skip
def test_bodies_of_another_kind(ada: Caller, kind: str) -> None:
    answer = ada.post(NOBODYS, content=b'{"reason": "x"}', headers={"Content-Type": kind})
    assert answer.status_code in (400, 415)  # 400: tornado itself cannot read a form
    error_of(answer)


@pytest.mark.parametrize(
    "kind",
    ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x-www-form-urlencoded"],
)
def test_bodies_that_are_json_all_the_same(ada: Caller, kind: str) -> None:
    answer = ada.post(NOBODYS, content=b'{"reason": "x"}', headers={"Content-Type": kind})
    refused(answer, 404)


def test_large_bodies(direct: httpx.Client) -> None:
    body = b'{"reason": "' + b"x" * (MIB - 100) + b'"}'
    refused(direct.post(NOBODYS, content=body, headers={"Content-Type": "application/json"}))
    with contextlib.suppress(httpx.HTTPError):  # the connection ends while the body is still sent
        assert direct.post(NOBODYS, content=b"x" * (MIB + 1)).status_code in (400, 413)
    assert direct.get("jobs").status_code == 200


def test_an_announcement_of_hostile_text_is_kept_as_text(grace: Caller) -> None:
    draft = {"text": "<script>alert(1)</script> \u202eabc", "starts_at": 1, "ends_at": 32503679999}
    answer = grace.post("announcements", json=draft)
    assert answer.status_code in (201, 400), answer.text
    if answer.status_code == 201:
        made = answer.json()
        assert grace.delete(f"announcements/{made['id']}").status_code == 204
        assert answer.headers["content-type"] == "application/json"
    for wrong in (
        {"text": "x\0y"}, {"text": ""}, {"text": "x" * 2001}, {"starts_at": -1},
        {"ends_at": 1e300}, {"ends_at": 0}, {"level": "loud"}, {"id": 5},
    ):  # fmt: skip
        refused(grace.post("announcements", json=draft | wrong))
    refused(grace.delete("announcements/999999999"), 404)
    refused(grace.delete("announcements/99999999999999999999"), 404)


# -- below HTTP ---------------------------------------------------------------------------------


def test_half_a_request_holds_nobody_up(demo: Any, ada: Caller) -> None:
    where = urlsplit(demo.url)
    with socket.create_connection((where.hostname, where.port), 120) as half:
        half.sendall(f"POST {API}jobs/1/cancel HTTP/1.1\r\nHost: x\r\nContent-Length: 9".encode())
        assert ada.get("jobs").status_code == 200


@pytest.mark.parametrize(
    "value", ["token", "Bearer", "Basic eDp4", "token " + "x" * 5000, "token \u00e9", "token a b"]
)
def test_a_token_that_is_none(demo: Any, value: str) -> None:
    header = {"Authorization": value.encode("latin-1")}
    refused(httpx.get(f"{demo.url}{API}jobs", headers=header, timeout=120), 403)


def test_a_cookie_that_is_none(demo: Any) -> None:
    header = {"Cookie": 'service-portal=x; _xsrf=y; jupyterhub-session-id="; a=' + "z" * 5000}
    refused(httpx.get(f"{demo.url}{API}jobs", headers=header, timeout=120), 403)


def test_errors_name_no_inside(ada: Caller) -> None:
    for path in ("jobs?limit=x", "jobs/x", "nothing", "nodes/gpu99"):
        text = ada.get(path).text
        for word in ("portal.", "pydantic", "Traceback", "/work", "site-packages", SERVICE):
            assert word not in text
    assert json.loads(ada.get("jobs?limit=x").text)["error"]["message"].startswith("'limit'")
