"""Compressed copies of static files: which files get them, and which copies are trusted."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import brotli
import pytest
from portal_session import compression, page, static_files
from portal_session.compression import Original, Store, accepted, original
from tornado.web import Application, StaticFileHandler, URLSpec

HASH = "0123456789abcdef"
TEXT = b"const words = 'the same again and again';\n" * 100


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script whose name holds a hash."""
    path = tmp_path / "static" / f"5361.{HASH}.js"
    path.parent.mkdir()
    path.write_bytes(TEXT)
    return path


def known(path: Path) -> Original:
    file = original(str(path))
    assert file
    return file


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A person's store, not made yet."""
    return Store(tmp_path / "store", personal=True)


@pytest.mark.parametrize(
    ("header", "codings"),
    [
        ("gzip, deflate, br, zstd", ["br", "gzip"]),
        ("GZIP;q=0.5,BR;q=1", ["br", "gzip"]),
        ("br;q=0, gzip", ["gzip"]),
        ("br ; q=0.000,gzip ;q=0.001", ["gzip"]),
        ("identity", []),
        ("*", []),
        ("brotli, x-gzip", []),
        ("", []),
        (";;,=,;q=0", []),
    ],
)
def test_codings_that_are_accepted(header: str, codings: list[str]) -> None:
    assert accepted(header) == codings


def test_gzip_does_where_brotli_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "brotli", None)
    assert accepted("gzip, br") == ["gzip"]


@pytest.mark.parametrize(
    ("name", "worth"),
    [
        (f"5361.{HASH}.js", True),
        (f"remoteEntry.{HASH}0123.js", True),
        (f"{HASH}.svg", True),
        (f"main.{HASH}.css", True),
        ("style.js", False),
        ("package.json", False),
        ("5361.0123456789abcde.js", False),  # no hash: too short
        (f"5361.{HASH.upper()}.js", False),
        (f"{HASH}.woff2", False),  # is compressed
        (f"5361.{HASH}.js.orig", False),
        (f"chunk{HASH}.js", False),
    ],
)
def test_only_names_with_a_hash_get_copies(tmp_path: Path, name: str, worth: bool) -> None:
    (tmp_path / name).write_bytes(TEXT)
    assert (original(str(tmp_path / name)) is not None) is worth


def test_small_files_and_what_is_no_file_get_none(tmp_path: Path) -> None:
    small, folder = tmp_path / f"1.{HASH}.js", tmp_path / f"2.{HASH}.js"
    small.write_bytes(b"1")
    folder.mkdir()
    assert original(str(small)) is original(str(folder)) is None


@pytest.mark.parametrize(("coding", "undo"), [("br", brotli.decompress), ("gzip", gzip.decompress)])
def test_a_copy_is_kept_and_is_the_file(script: Path, store: Store, coding: str, undo) -> None:
    copies = static_files.Copies([store])
    first = copies.get(known(script), coding)
    assert undo(first) == TEXT
    assert len(first) < len(TEXT) / 10
    assert store.read(known(script), coding) == first


def test_another_state_of_the_file_has_another_copy(script: Path, store: Store) -> None:
    static_files.Copies([store]).get(known(script), "gzip")
    same_size = bytes(reversed(TEXT))
    script.write_bytes(same_size)
    os.utime(script, (1, 1))
    assert store.read(known(script), "gzip") is None
    assert gzip.decompress(static_files.Copies([store]).get(known(script), "gzip")) == same_size


def test_links_to_one_file_share_its_copy(script: Path, tmp_path: Path) -> None:
    link = tmp_path / f"link.{HASH}.js"
    link.symlink_to(script)
    assert known(link) == known(script)


def test_the_environments_copies_come_first(script: Path, store: Store, tmp_path: Path) -> None:
    ahead = Store(tmp_path / "environment", personal=False)
    ahead.write(known(script), "br", b"ahead")
    store.write(known(script), "br", b"mine")
    assert static_files.Copies([ahead, store]).get(known(script), "br") == b"ahead"
    (made,) = (tmp_path / "environment").iterdir()
    assert made.stat().st_mode & 0o777 == 0o644  # for everybody who runs a session in it


def test_filling_copies_all_that_is_worth_it(script: Path, tmp_path: Path) -> None:
    (script.parent / "style.js").write_bytes(TEXT)
    (script.parent / f"gone.{HASH}.js").symlink_to("nowhere")
    ahead = Store(tmp_path / "environment", personal=False)
    assert compression.fill(ahead, [script.parent, tmp_path / "missing"]) == 1
    assert brotli.decompress(ahead.read(known(script), "br") or b"") == TEXT
    assert gzip.decompress(ahead.read(known(script), "gzip") or b"") == TEXT


def test_filling_again_removes_what_is_of_another_version(script: Path, tmp_path: Path) -> None:
    ahead = Store(tmp_path / "environment", personal=False)
    compression.fill(ahead, [script.parent])
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "environment").iterdir()}
    new = script.with_name(f"5361.{HASH[::-1]}.js")
    new.write_bytes(TEXT)
    compression.fill(ahead, [script.parent])
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "environment").iterdir()}
    assert len(after) == 4
    assert before.items() <= after.items()  # not made anew
    script.unlink()
    compression.fill(ahead, [script.parent])
    left = {path.name for path in (tmp_path / "environment").iterdir()}
    assert left == after.keys() - before.keys()


def copy_of(script: Path, store: Store, tmp_path: Path) -> Path:
    store.write(known(script), "br", b"a copy")
    assert store.read(known(script), "br") == b"a copy"
    (made,) = (tmp_path / "store").iterdir()
    return made


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_copy_that_others_can_write_is_not_sent(
    script: Path, store: Store, tmp_path: Path, mode: int
) -> None:
    copy_of(script, store, tmp_path).chmod(mode)
    assert store.read(known(script), "br") is None


def test_a_copy_of_another_account_is_not_sent(
    script: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_of(script, store, tmp_path)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert store.read(known(script), "br") is None


def test_a_link_or_a_pipe_in_place_of_a_copy_is_not_read(
    script: Path, store: Store, tmp_path: Path
) -> None:
    made = copy_of(script, store, tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    made.unlink()
    made.symlink_to(secret)
    assert store.read(known(script), "br") is None
    made.unlink()
    os.mkfifo(made)
    assert store.read(known(script), "br") is None  # and nobody waits for a writer


def test_nothing_is_written_into_a_folder_of_others(
    script: Path, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o777)
    with pytest.raises(PermissionError):
        store.write(known(script), "br", b"a copy")
    # What is asked for is sent all the same.
    sent = static_files.Copies([store]).get(known(script), "br")
    assert brotli.decompress(sent) == TEXT
    assert not list((tmp_path / "store").iterdir())


def test_a_new_store_is_its_persons_alone(script: Path, store: Store, tmp_path: Path) -> None:
    made = copy_of(script, store, tmp_path)
    assert made.parent.stat().st_mode & 0o777 == 0o700
    assert made.stat().st_mode & 0o777 == 0o600


def test_old_copies_do_not_pile_up(
    script: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_MOST", 5)
    (tmp_path / "store").mkdir(mode=0o700)
    for number in range(6):
        (tmp_path / "store" / f"old{number}").touch()
        os.utime(tmp_path / "store" / f"old{number}", (number, number))
    store.write(known(script), "br", b"a copy")
    left = {path.name for path in (tmp_path / "store").iterdir()}
    assert left == {"old3", "old4", "old5", f"{known(script).key}.br"}


def test_without_a_place_for_the_person_there_is_none() -> None:
    assert compression.personal_store({}) is None
    assert compression.personal_store({"PYTHONUSERBASE": "/home/ada/.portal/lab"})


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
