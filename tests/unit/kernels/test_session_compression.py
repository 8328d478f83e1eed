"""Compression of static files: which answers are compressed, and what the page names first."""

from __future__ import annotations

import gzip
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session import page, static_files
from tornado.httputil import HTTPHeaders
from tornado.web import Application, StaticFileHandler, URLSpec

HASH = "0123456789abcdef"
TEXT = b"const words = 'the same again and again';\n" * 100


def answered(
    path: str, status: int = 200, coding: str = "gzip", kind: str = "text/javascript", **more: Any
) -> tuple[HTTPHeaders, bytes]:
    """The headers and the first part of an answer that `CompressedAnswers` has transformed."""
    request = SimpleNamespace(path=path, headers={"Accept-Encoding": coding}, **more)
    transform = static_files.CompressedAnswers(request, prefix="/user/ada/lab/api/")
    headers = HTTPHeaders({"Content-Type": kind, "Content-Length": str(len(TEXT))})
    _, headers, chunk = transform.transform_first_chunk(status, headers, TEXT, finishing=True)
    return headers, chunk


@pytest.mark.parametrize(
    ("path", "more"),
    [("/user/ada/static/lab/1.js", {"portal_static": True}), ("/user/ada/lab/api/settings", {})],
)
def test_static_files_and_settings_are_compressed(path: str, more: dict[str, bool]) -> None:
    headers, chunk = answered(path, **more)
    assert gzip.decompress(chunk) == TEXT
    assert headers["Content-Encoding"] == "gzip"
    assert headers.get_list("Vary") == ["Accept-Encoding"]


@pytest.mark.parametrize("coding", ["", "br", "identity"])
def test_only_whom_gzip_suits_gets_it(coding: str) -> None:
    headers, chunk = answered("/user/ada/static/1.js", coding=coding, portal_static=True)
    assert chunk == TEXT
    assert "Content-Encoding" not in headers
    assert headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("status", [206, 304, 404])
def test_a_part_is_one_of_the_file_as_it_is(status: int) -> None:
    headers, chunk = answered("/user/ada/static/1.js", status, portal_static=True)
    assert (chunk, headers["Vary"]) == (TEXT, "Accept-Encoding")
    assert "Content-Encoding" not in headers


def test_what_is_compressed_already_is_not_again() -> None:
    headers, chunk = answered("/user/ada/static/1.woff2", kind="font/woff2", portal_static=True)
    assert chunk == TEXT and "Content-Encoding" not in headers


@pytest.mark.parametrize("path", ["/user/ada/lab", "/user/ada/files/1.js", "/user/ada/api/me"])
def test_answers_that_hold_secrets_are_not_compressed(path: str) -> None:
    headers, chunk = answered(path, kind="application/json")
    assert chunk == TEXT
    assert "Content-Encoding" not in headers and "Vary" not in headers


def test_the_former_step_of_installations_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_module("portal_session.compression", run_name="__main__")
    assert "need not be compressed" in capsys.readouterr().out


def test_jupyter_servers_handler_is_replaced_in_all_routes() -> None:
    stock = static_files.FileFindHandler
    named = URLSpec("/named/(.*)", stock, {"path": []})
    application = Application([("/static/(.*)", stock, {"path": []}), named])
    application.add_handlers(
        ".*$",
        [
            ("/lab/extensions/(.*)", stock, {"path": []}),
            ("/other/(.*)", StaticFileHandler, {"path": "/"}),
        ],
    )
    static_files.replace_handlers(application.default_router.rules)
    groups = [rule.target.rules for rule in application.default_router.rules]
    targets = {rule.matcher.regex.pattern: rule.target for group in groups for rule in group}
    assert targets == {
        "/static/(.*)$": static_files.StaticFiles,
        "/named/(.*)$": static_files.StaticFiles,
        "/lab/extensions/(.*)$": static_files.StaticFiles,
        "/other/(.*)$": StaticFileHandler,
    }
    assert named.handler_class is static_files.StaticFiles


def test_nobody_has_to_log_in_for_a_script() -> None:
    """As with jupyter_server's own, where a site forbids all that is not marked."""
    mark = "__allow_unauthenticated"
    theirs, ours = static_files.FileFindHandler, static_files.StaticFiles
    for method in ("get", "head"):
        assert getattr(getattr(ours, method), mark) is getattr(getattr(theirs, method), mark)


# -- what the page names ---------------------------------------------------------------------------


def lab(folder: Path, script: str = f"main.{HASH}.js?v={HASH}") -> str:
    """The folder of a JupyterLab that was built, with this script in its page."""
    folder.mkdir()
    (folder / "index.html").write_text(f'<script src="{{{{url}}}}/{script}"></script>')
    (folder / f"jlab_core.{HASH}.js").touch()
    (folder / f"jlab_core.{HASH}.js.LICENSE.txt").touch()
    return str(folder)


PAGE = {
    "fullStaticUrl": "/user/ada/static/lab",
    "fullLabextensionsUrl": "/user/ada/lab/extensions",
    "federated_extensions": [{"name": "@scope/one", "load": f"static/remoteEntry.{HASH}.js"}],
}
ENTRY = f"/user/ada/lab/extensions/@scope/one/static/remoteEntry.{HASH}.js"
CORE = f"/user/ada/static/lab/jlab_core.{HASH}.js?v={HASH}"


def test_the_core_and_the_extensions_entries_are_named(tmp_path: Path) -> None:
    assert page.first_scripts(PAGE, [lab(tmp_path / "lab")]) == [CORE, ENTRY]


@pytest.mark.parametrize("script", [f"main.{HASH}.js", "main.js", f"main.{HASH}.js?v=1"])
def test_a_core_that_may_be_named_otherwise_is_not_named(tmp_path: Path, script: str) -> None:
    """It would be loaded twice."""
    assert page.first_scripts(PAGE, [lab(tmp_path / "lab", script)]) == [ENTRY]


def test_a_folder_without_one_core_names_none(tmp_path: Path) -> None:
    folder = lab(tmp_path / "lab")
    (tmp_path / "lab" / f"jlab_core.{HASH[::-1]}.js").touch()
    assert page.first_scripts(PAGE, [folder, str(tmp_path / "missing")]) == [ENTRY]


def test_the_header_stays_small_and_whole(tmp_path: Path) -> None:
    names = ["one", 'two"; x', "three\r\nSet-Cookie: a=b", "vier>", "fünf", "six seven"]
    names += [f"more{number}" for number in range(100)]
    extensions = [{"name": name, "load": "entry.js"} for name in names]
    urls = page.first_scripts({**PAGE, "federated_extensions": extensions}, [])
    assert len(urls) == 16
    assert [url.split("/")[-2] for url in urls[:3]] == ["one", "more0", "more1"]
