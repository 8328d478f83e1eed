"""JupyterLab's files as a session's server sends them: compressed, and kept by browsers."""

from __future__ import annotations

import gzip
import http.client
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from session_server import BASE, TOKEN, SessionServer, a_server, make_python

pytest.importorskip("jupyterlab")
STATIC = Path(sys.prefix) / "share/jupyter/lab/static"
UNDO = {"gzip": gzip.decompress, "": bytes}
HASH = "0123456789abcdef"
WORDS = b"const words = 'of an extension';\n" * 100


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with an extension of JupyterLab."""
    made = make_python(tmp_path_factory.mktemp("static") / "venv")
    extension = made.parents[1] / "share/jupyter/labextensions/mine/static"
    extension.mkdir(parents=True)
    (extension / f"remoteEntry.{HASH}.js").write_bytes(WORDS)
    (extension / "style.js").write_bytes(WORDS)
    build = f'{{"_build": {{"load": "static/remoteEntry.{HASH}.js", "extension": "./extension"}}}}'
    package = f'{{"name": "mine", "version": "1", "jupyterlab": {build}}}'
    (extension.parent / "package.json").write_text(package)
    return made


def a_lab(python: Path, **environment: str) -> AbstractContextManager[SessionServer]:
    """A server with the argument of `portal_session.__main__`."""
    return a_server(python, "--LabApp.cache_files=True", **environment)


@pytest.fixture(scope="module")
def server(python: Path) -> Iterator[SessionServer]:
    with a_lab(python) as running:
        yield running


def core() -> str:
    """The address of JupyterLab's core, as the page asks for it."""
    (name,) = (path.name for path in STATIC.glob("jlab_core.*.js"))
    return f"static/lab/{name}?v={name.split('.')[1]}"


def sent(server: SessionServer, path: str, coding: str, **headers: str) -> tuple[bytes, dict]:
    """The bytes of an answer as they are sent, and its headers; nobody has logged in."""
    headers = {"Accept-Encoding": coding or "identity", **headers}
    with httpx.stream("GET", f"{server.url}{BASE}{path}", headers=headers) as answer:
        return b"".join(answer.iter_raw()), dict(answer.headers) | {"status": answer.status_code}


@pytest.mark.parametrize("coding", ["gzip", ""])
def test_the_file_is_the_same_in_every_coding(server: SessionServer, coding: str) -> None:
    _, plain = sent(server, core(), "")
    body, headers = sent(server, core(), coding)
    assert UNDO[coding](body) == (STATIC / core().split("/")[-1].split("?")[0]).read_bytes()
    assert headers.get("content-encoding", "") == coding
    assert int(headers.get("content-length", len(body))) == len(body)
    for name in ("content-type", "etag", "last-modified", "cache-control", "vary"):
        assert headers[name] == plain[name], name
    assert headers["vary"] == "Accept-Encoding"
    assert "immutable" in headers["cache-control"]
    assert "javascript" in headers["content-type"]


def test_it_is_much_less(server: SessionServer) -> None:
    plain, compressed = (len(sent(server, core(), coding)[0]) for coding in ("", "gzip"))
    assert compressed < plain / 3


def test_head_says_what_get_would(server: SessionServer) -> None:
    """But for the coding: tornado compresses what it sends."""
    whole, got = sent(server, core(), "")
    answer = httpx.head(f"{server.url}{BASE}{core()}", headers={"Accept-Encoding": "gzip"})
    assert answer.content == b"" and "content-encoding" not in answer.headers
    for name in ("content-length", "etag", "cache-control", "content-type", "vary"):
        assert answer.headers[name] == got[name], name
    assert int(got["content-length"]) == len(whole)


def test_a_part_is_one_of_the_file_as_it_is(server: SessionServer) -> None:
    body, headers = sent(server, core(), "gzip", Range="bytes=10-19")
    whole, _ = sent(server, core(), "")
    assert (headers["status"], body) == (206, whole[10:20])
    assert headers["content-range"] == f"bytes 10-19/{len(whole)}"
    assert "content-encoding" not in headers


@pytest.mark.parametrize(
    ("asked", "named"), [("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")]
)
def test_what_has_not_changed_is_not_sent_again(
    server: SessionServer, asked: str, named: str
) -> None:
    _, before = sent(server, core(), "gzip")
    body, headers = sent(server, core(), "gzip", **{asked: before[named]})
    assert (headers["status"], body) == (304, b"")
    assert headers["vary"] == "Accept-Encoding"
    old = {"If-None-Match": 'W/"1-1"', "If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}
    body, headers = sent(server, core(), "gzip", **{asked: old[asked]})
    assert headers["status"] == 200
    assert gzip.decompress(body) == sent(server, core(), "")[0]


@pytest.mark.parametrize(
    ("path", "forever"),
    [
        (f"lab/extensions/mine/static/remoteEntry.{HASH}.js", True),
        ("lab/extensions/mine/static/style.js", False),
        ("lab/extensions/mine/static/style.js?v=1", False),
        (f"lab/extensions/mine/static/style.js?v={HASH}", True),
        ("lab/extensions/mine/package.json", False),
        ("static/lab/package.json", False),
        ("static/lab/index.html", False),
    ],
)
def test_only_what_a_hash_names_is_kept_without_asking(
    server: SessionServer, path: str, forever: bool
) -> None:
    for coding in ("gzip", ""):
        _, headers = sent(server, path, coding)
        assert headers["status"] == 200
        expected = "public, max-age=31536000, immutable" if forever else "no-cache"
        assert headers["cache-control"] == expected
        assert forever or "expires" not in headers


@pytest.mark.parametrize("up", ["..", "%2e%2e", "..%2f..", "%2e%2e/%2e%2e", "..%5c.."])
@pytest.mark.parametrize("base", ["static/lab/", "lab/extensions/mine/", "static/"])
def test_nobody_gets_out_of_the_folders(server: SessionServer, base: str, up: str) -> None:
    """``httpx`` would tidy the address up."""
    name = f"secret.{HASH}.js"
    (server.home / name).write_bytes(b"secret" * 1000)
    connection = http.client.HTTPConnection("127.0.0.1", httpx.URL(server.url).port)
    for number in range(1, 12):
        place = f"{server.home}/{name}".lstrip("/")
        path = f"{BASE}{base}{'/'.join([up] * number)}/{place}"
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        assert b"secret" not in gzip_or(answer.read())
        assert answer.status in (302, 403, 404), path  # 302: the page, for who has not logged in
    connection.close()


def gzip_or(body: bytes) -> bytes:
    try:
        return gzip.decompress(body)
    except gzip.BadGzipFile:
        return body


# -- the page -------------------------------------------------------------------------------------


def test_the_page_names_what_it_needs_first(server: SessionServer) -> None:
    body, headers = sent(server, f"lab?token={TOKEN}", "gzip")
    assert b"jupyter-config-data" in body  # as it is: it holds a token
    assert "content-encoding" not in headers
    links = re.findall(r"<([^>]+)>; rel=preload; as=script", headers["link"])
    assert f"{BASE}{core()}" in links
    assert f"{BASE}lab/extensions/mine/static/remoteEntry.{HASH}.js" in links
    for link in links:
        assert httpx.get(server.url + link).status_code == 200


def test_settings_are_compressed_and_what_people_write_is_not(server: SessionServer) -> None:
    (server.home / "notes.txt").write_text("secret " * 1000)
    login = {"Authorization": f"token {TOKEN}"}
    body, headers = sent(server, "lab/api/settings", "gzip", **login)
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "Accept-Encoding"
    assert b"codemirror" in gzip.decompress(body)
    for path in ("api/contents/notes.txt", "files/notes.txt", "api/contents", "lab"):
        body, headers = sent(server, path, "gzip", **login)
        assert headers["status"] == 200
        assert "content-encoding" not in headers, path
