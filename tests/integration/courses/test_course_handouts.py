"""What courses hand out: real git, real servers on loopback, and every hostile repository."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from git_server import GitServer, Repository, git, serve
from machine_clock import awake
from quiet_http import QuietHandler
from stored_courses import a_course, stored

from portal.courses.files.git import Git, GitFailed
from portal.courses.files.handouts import CourseHandouts
from portal.courses.files.paths import folder_problem, link_problem, problem_of, safe_name
from portal.courses.files.source_sync import source_problem
from portal.courses.settings import Courses
from portal.errors import InvalidRequest, NotFound, PortalError
from portal.models.course.course import Handouts, StoredCourse
from portal.store import Store

TODAY = date.today()


def course(kind: str = "none", source: str = "", **more: Any) -> StoredCourse:
    handouts = Handouts(kind=kind, source=source, branch=more.pop("branch", ""))  # type: ignore[arg-type]
    days = {"begins": TODAY - timedelta(days=1), "ends": TODAY + timedelta(days=30)}
    return stored(a_course("dl101", environment="torch", handouts=handouts, **days, **more))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with serve(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def server(served: GitServer) -> GitServer:
    served.instead = None
    served.asked.clear()
    return served


@pytest.fixture
def upstream(server: GitServer, request: pytest.FixtureRequest) -> Repository:
    made = Repository(server.root / request.node.name.replace("/", "_")[:80])
    made.write("week1/a.ipynb", "{}\n")
    made.write("b.txt", "b\n")
    made.commit()
    return made


@pytest.fixture
async def handouts(tmp_path: Path, store: Store) -> AsyncIterator[CourseHandouts]:
    settings = Courses(
        directory=str(tmp_path / "courses"),
        data_roots=[str(tmp_path / "data")],
        handouts_loopback=True,
        handouts_megabytes=8,
        handouts_seconds=300,
    )
    (tmp_path / "data").mkdir()
    made = CourseHandouts(store, settings, logging.getLogger("service"))
    yield made
    await made.settled()


def address(server: GitServer, upstream: Repository) -> str:
    return f"{server.url}/{upstream.place.name}"


def from_git(server: GitServer, upstream: Repository, **more: Any) -> StoredCourse:
    return course("git", address(server, upstream), **more)


async def unpacked(handouts: CourseHandouts, where: Path) -> dict[str, str]:
    """What a session gets: every file with its text, a link as what it leads to."""
    _, bundle = await handouts.bundle("dl101")
    git(where.parent, "clone", "-q", str(bundle), str(where))
    assert git(where, "rev-list", "--merges", "HEAD") == ""
    found = {}
    for path in sorted(where.rglob("*")):
        name = str(path.relative_to(where))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file() and not name.startswith(".git/"):
            found[name] = path.read_text()
    return found


# -- what everybody gets ----------------------------------------------------------------------


async def test_a_repository_is_handed_out(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    saved = from_git(server, upstream)
    assert await handouts.newest("dl101") == ""
    with pytest.raises(NotFound):
        await handouts.bundle("dl101")
    revision = await handouts.refresh(saved, "barbara")
    assert len(revision) == 40
    assert await unpacked(handouts, tmp_path / "got") == {"week1/a.ipynb": "{}\n", "b.txt": "b\n"}
    state = await handouts.state(saved)
    assert [(one.path, one.size, one.uploaded) for one in state.files] == [
        ("b.txt", 2, False),
        ("week1/a.ipynb", 3, False),
    ]
    assert (state.revision, state.problem, state.left_out) == (revision, "", "")
    assert [(one.revision, one.by) for one in state.revisions] == [(revision, "barbara")]
    assert state.fetched_at is not None
    folder = handouts.folder("dl101")
    assert (folder / "handouts.git").stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_mode & 0o077 == 0


async def test_revisions_are_one_line_and_only_what_changed_is_one(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    saved = from_git(server, upstream)
    first = await handouts.refresh(saved, "barbara")
    assert await handouts.refresh(saved, "barbara") == first
    upstream.write("b.txt", "new\n")
    (upstream.place / "week1/a.ipynb").unlink()
    upstream.commit()
    second = await handouts.refresh(saved, "barbara")
    assert second != first
    assert await unpacked(handouts, tmp_path / "got") == {"b.txt": "new\n"}
    assert git(tmp_path / "got", "rev-list", "HEAD").split() == [second, first]
    assert [path.stem for path in (handouts.folder("dl101") / "bundles").iterdir()] == [second]
    # The service is started again, and its bundle was lost.
    (handouts.folder("dl101") / "bundles" / f"{second}.bundle").unlink()
    again = CourseHandouts(handouts.store, handouts.settings, handouts.log)
    assert (await again.bundle("dl101"))[0] == second
    assert await unpacked(again, tmp_path / "again") == {"b.txt": "new\n"}


async def test_a_branch_can_be_named(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    git(upstream.place, "checkout", "-q", "-b", "2026/autumn")
    upstream.write("autumn.txt", "a\n")
    upstream.commit()
    git(upstream.place, "checkout", "-q", "main")
    await handouts.refresh(from_git(server, upstream, branch="2026/autumn"), "barbara")
    assert "autumn.txt" in await unpacked(handouts, tmp_path / "got")
    with pytest.raises(GitFailed, match="nowhere"):
        await handouts.refresh(from_git(server, upstream, branch="nowhere"), "barbara")


async def test_files_from_the_page_lie_over_those_of_the_source(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    saved = from_git(server, upstream)
    (tmp_path / "file").write_bytes(b"from the page\n")
    first = await handouts.hand_out(saved, "week2/c.txt", tmp_path / "file", "barbara")
    assert await unpacked(handouts, tmp_path / "1") == {"week2/c.txt": "from the page\n"}
    await handouts.refresh(saved, "barbara")
    await handouts.hand_out(saved, "b.txt", tmp_path / "file", "barbara")
    await handouts.hand_out(saved, "week1", tmp_path / "file", "barbara")  # a folder of the source
    got = await unpacked(handouts, tmp_path / "2")
    assert got == {
        "b.txt": "from the page\n", "week1": "from the page\n", "week2/c.txt": "from the page\n",
    }  # fmt: skip
    assert git(tmp_path / "2", "rev-list", "HEAD").split()[-1] == first
    await handouts.take_back(saved, "b.txt", "barbara")
    await handouts.take_back(saved, "week1", "barbara")
    got = await unpacked(handouts, tmp_path / "3")
    assert got == {"b.txt": "b\n", "week1/a.ipynb": "{}\n", "week2/c.txt": "from the page\n"}
    state = await handouts.state(saved)
    assert [one.path for one in state.files if one.uploaded] == ["week2/c.txt"]
    with pytest.raises(NotFound):
        await handouts.take_back(saved, "b.txt", "barbara")


async def test_a_course_without_a_source_forgets_what_it_had(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    await handouts.refresh(from_git(server, upstream), "barbara")
    (tmp_path / "file").write_bytes(b"c\n")
    await handouts.hand_out(course(), "c.txt", tmp_path / "file", "barbara")
    await handouts.refresh(course(), "barbara")
    assert await unpacked(handouts, tmp_path / "got") == {"c.txt": "c\n"}


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../x", "a/../x", "a//b", "a/./b", ".git/hooks/post-merge", "a/.GIT/x",
        "git~1/x", ".g\u200cit/config", ".git./x", "a\nb", "a\x1bb", 'a"b', "a\\b", "x" * 256,
        ".gitattributes", "a/.gitmodules", "/".join("x" * 50), "a/" * 600 + "a", "\ud800",
    ],
)  # fmt: skip
async def test_no_such_file_is_handed_out(
    handouts: CourseHandouts, path: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(InvalidRequest, match="another name"):
        await handouts.hand_out(course(), path, tmp_path / "file", "barbara")
    assert problem_of("Übung 1/a b.ipynb") == problem_of(".gitignore") == ""


# -- hostile repositories ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("file:///etc", "https"),
        ("/etc", "https"),
        ("ext::sh -c touch% /tmp/pwned", "https"),
        ("ssh://git@example.org/x", "https"),
        ("git@example.org:x", "https"),
        ("git://example.org/x", "https"),
        ("ftp://example.org/x", "https"),
        ("https://ada:secret@example.org/x", "password"),
        ("https://token@example.org/x", "password"),
        ("http://example.org/x", "https"),
        ("https://example.org/x --upload-pack=evil", "https"),
        ("https:///x", "https"),
        ("https://[::1/x", "https"),
        ("--upload-pack=evil", "https"),
        ("", "https"),
    ],
)
async def test_other_addresses_are_refused_in_words(
    handouts: CourseHandouts, source: str, word: str
) -> None:
    with pytest.raises(InvalidRequest, match=word):
        await handouts.refresh(course("git", source), "barbara")
    assert word in (await handouts.state(course("git", source))).problem
    assert "secret" not in (await handouts.state(course("git", source))).problem
    assert source_problem(Handouts(kind="git", source="https://example.org/x.git"), []) == ""


async def test_without_the_tests_setting_loopback_is_refused(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    handouts.settings.handouts_loopback = False
    with pytest.raises(InvalidRequest, match="https"):
        await handouts.refresh(from_git(server, upstream), "barbara")
    assert server.asked == []


async def test_git_itself_refuses_other_protocols(
    handouts: CourseHandouts, upstream: Repository, tmp_path: Path
) -> None:
    """Behind the check of the address: what a redirect or a mistake would lead to."""
    await handouts.refresh(course(), "barbara")
    repository = await handouts._git("dl101")
    mark = tmp_path / "mark"
    for bad in (f"file://{upstream.place}", str(upstream.place), f"ext::touch {mark}"):
        with pytest.raises(GitFailed, match="not allowed"):
            await repository.run("fetch", "--", bad, "HEAD:refs/portal/upstream")
    assert not mark.exists()


async def test_a_redirect_to_another_protocol_is_not_followed(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    server.answer_only(302, "Location", f"file://{upstream.place}/info/refs")
    with pytest.raises(GitFailed) as caught:
        await handouts.refresh(from_git(server, upstream), "barbara")
    assert str(upstream.place.parent) not in caught.value.message


async def test_what_is_hostile_in_a_tree_is_left_out_with_a_word(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    inner = b"100755 post-checkout\0" + bytes.fromhex(
        git(upstream.place, "hash-object", "-w", "--stdin", stdin=b"#!/bin/sh\ntouch /tmp/p\n")
    )
    upstream.tree(
        ("40000", ".git", inner),
        ("40000", ".GIT ", inner),
        ("100644", ".gitattributes", b"* filter=evil\n"),
        ("100644", ".gitmodules", b'[submodule "x"]\n path = sub\n url = file:///etc\n'),
        ("100644", "..", b"out\n"),
        ("100644", "a\nb", b"newline\n"),
        ("100644", "caf\udce9", b"no UTF-8\n"),
        ("100644", "good.txt", b"good\n"),
        ("120000", "link-in", b"good.txt"),
        ("120000", "link-out", b"/etc/passwd"),
        ("120000", "link-up", b"../../x"),
        ("120000", "link-sly", b"link-in/../../x"),
        ("120000", "link-git", b".git/config"),
        ("120000", "link-long", b"a/" * 4000),
        ("160000", "sub", b""),
    )
    saved = from_git(server, upstream)
    await handouts.refresh(saved, "barbara")
    got = await unpacked(handouts, tmp_path / "got")
    assert got == {"good.txt": "good\n", "link-in": "-> good.txt"}
    state = await handouts.state(saved)
    assert "'sub' is a submodule" in state.left_out or "more" in state.left_out
    assert "Left out" in state.revisions[0].message
    assert not any("/etc" in path for path in server.asked)
    assert not Path("/tmp/p").exists()


async def test_a_sentence_for_each_that_is_left_out(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    upstream.tree(("100644", "good.txt", b"good\n"), ("160000", "sub", b""))
    saved = from_git(server, upstream)
    await handouts.refresh(saved, "barbara")
    assert (await handouts.state(saved)).left_out == "Left out: 'sub' is a submodule."


async def test_hooks_and_filters_never_run(
    handouts: CourseHandouts,
    server: GitServer,
    upstream: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = tmp_path / "mark"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {home}\n\tfsmonitor = touch {mark}\n"
        f"[credential]\n\thelper = !touch {mark}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {mark}")
    saved = from_git(server, upstream)
    await handouts.refresh(saved, "barbara")
    hooks = handouts.folder("dl101") / "handouts.git/hooks"
    hooks.mkdir(exist_ok=True)
    for place in (hooks, home):
        for name in ("reference-transaction", "post-update", "pre-auto-gc"):
            (place / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
            (place / name).chmod(0o755)
    upstream.write("c.txt", "c\n")
    upstream.commit()
    await handouts.refresh(saved, "barbara")
    assert not mark.exists()


async def test_a_repository_that_asks_for_a_password_fails_at_once(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    server.answer_only(401, "WWW-Authenticate", 'Basic realm="x"')
    began = awake()
    with pytest.raises(GitFailed):
        await handouts.refresh(from_git(server, upstream), "barbara")
    assert awake() - began < 10


async def test_one_that_is_away_leaves_the_last_good_state(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    saved = from_git(server, upstream)
    revision = await handouts.refresh(saved, "barbara")
    server.instead = lambda handler: handler.send_error(503)
    with pytest.raises(GitFailed, match="503"):
        await handouts.refresh(saved, "barbara")
    state = await handouts.state(saved)
    assert state.revision == revision and "503" in state.problem and state.problem_at
    assert await unpacked(handouts, tmp_path / "got") == {"week1/a.ipynb": "{}\n", "b.txt": "b\n"}
    server.instead = None
    await handouts.refresh(saved, "barbara")
    assert (await handouts.state(saved)).problem == ""


async def test_one_that_never_ends_is_ended(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    def hang(handler: QuietHandler) -> None:
        handler.connection.settimeout(30)
        handler.connection.recv(1)  # until the client goes

    server.instead = hang
    handouts.settings.handouts_seconds = 1
    with pytest.raises(GitFailed, match="longer than 1 s"):
        await handouts.refresh(from_git(server, upstream), "barbara")
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert server.url not in running.stdout


@pytest.mark.parametrize("kind", ["noise", "zeros"])
async def test_one_that_is_huge_is_refused(
    handouts: CourseHandouts, server: GitServer, upstream: Repository, kind: str
) -> None:
    """As it comes (noise), and once it is unpacked (zeros)."""
    saved = from_git(server, upstream)
    revision = await handouts.refresh(saved, "barbara")
    size = 9 * 1024 * 1024
    upstream.write("huge.bin", os.urandom(size) if kind == "noise" else bytes(size))
    upstream.commit()
    with pytest.raises(PortalError, match="8 MB") as caught:
        await handouts.refresh(saved, "barbara")
    assert isinstance(caught.value, GitFailed) is (kind == "noise")
    assert (await handouts.state(saved)).revision == revision
    (upstream.place / "huge.bin").unlink()
    upstream.write("c.txt", "c\n")
    upstream.commit()
    assert await handouts.refresh(saved, "barbara") != revision
    packs = handouts.folder("dl101") / "handouts.git/objects/pack"
    assert sum(path.stat().st_size for path in packs.iterdir()) < 1024 * 1024


async def test_a_tree_that_unfolds_without_end_is_refused(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    """A few objects that stand for ten thousand million files."""
    blob = git(upstream.place, "hash-object", "-w", "--stdin", stdin=b"x")
    kind, tree = "100644", blob
    for _ in range(10):
        lines = b"".join(
            f"{kind} {name}".encode() + b"\0" + bytes.fromhex(tree) for name in "abcdefghij"
        )
        tree = git(upstream.place, "hash-object", "-t", "tree", "-w", "--stdin", stdin=lines)
        kind = "40000"
    git(
        upstream.place, "update-ref", "refs/heads/main",
        git(upstream.place, "commit-tree", tree, "-m", "bomb"),
    )  # fmt: skip
    with pytest.raises(GitFailed, match=r"output exceeds the limit|longer than"):
        await handouts.refresh(from_git(server, upstream), "barbara")


async def test_a_git_that_writes_without_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused at once, however full its pipe is by then: asyncio's wait() for a process
    waits for the ends of its pipes too."""
    endless = tmp_path / "git"
    endless.write_text(f"#!/bin/sh\nexec yes {'0123456789' * 7}\n")
    endless.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    git = Git(tmp_path, megabytes=8)
    for most in (1000, 32 * 1024 * 1024):
        with pytest.raises(GitFailed, match="output exceeds the limit"):
            await asyncio.wait_for(git.run("ls-tree", most=most), 60)


async def test_git_is_not_asked_of_links_without_end(
    handouts: CourseHandouts,
    server: GitServer,
    upstream: Repository,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A tree of a few MB has room for a hundred thousand links: a git for each would take an hour,
    in which other courses wait."""
    monkeypatch.setattr("portal.courses.files.tree._LINKS", 3)
    links = [("120000", f"link{number}", b"good.txt") for number in range(5)]
    upstream.tree(("100644", "good.txt", b"good\n"), *links)
    saved = from_git(server, upstream)
    await handouts.refresh(saved, "barbara")
    got = await unpacked(handouts, tmp_path / "got")
    assert sorted(got) == ["good.txt", "link0", "link1", "link2"]
    assert "'link4' is one of more than 3 links" in (await handouts.state(saved)).left_out


async def test_an_upload_that_is_too_much_leaves_nothing(
    handouts: CourseHandouts, tmp_path: Path
) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    with pytest.raises(PortalError, match="8 MB"):
        await handouts.hand_out(course(), "big.bin", tmp_path / "file", "barbara")
    (tmp_path / "file").write_bytes(b"small\n")
    await handouts.hand_out(course(), "small.txt", tmp_path / "file", "barbara")
    assert await unpacked(handouts, tmp_path / "got") == {"small.txt": "small\n"}


# -- folders of the site ----------------------------------------------------------------------


async def test_a_folder_is_handed_out_and_no_link_is_followed(
    handouts: CourseHandouts, tmp_path: Path
) -> None:
    place = tmp_path / "data/dl101"
    (place / "week1").mkdir(parents=True)
    (place / "week1/a.txt").write_text("a\n")
    (place / "secret").symlink_to("/etc/passwd")
    (place / "out").symlink_to("/etc")
    (place / ".git").mkdir()
    (place / ".git/config").write_text("x")
    os.mkfifo(place / "pipe")
    saved = course("folder", str(place))
    await handouts.refresh(saved, "barbara")
    assert await unpacked(handouts, tmp_path / "got") == {"week1/a.txt": "a\n"}
    left_out = (await handouts.state(saved)).left_out
    for name in ("secret", "out", "pipe"):
        assert f"'{name}' is a link or a special file" in left_out
    (place / "week1/a.txt").unlink()
    (place / "b.txt").write_text("b\n")
    await handouts.refresh(saved, "barbara")
    assert await unpacked(handouts, tmp_path / "again") == {"b.txt": "b\n"}


async def test_a_folder_elsewhere_is_refused(handouts: CourseHandouts, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "data/link").symlink_to(tmp_path / "other")
    for path in ("/etc", f"{tmp_path}/data/../other", f"{tmp_path}/database", "data"):
        with pytest.raises(InvalidRequest, match="data_roots"):
            await handouts.refresh(course("folder", path), "barbara")
    for path in (f"{tmp_path}/data/link", f"{tmp_path}/data/nothing"):
        with pytest.raises(NotFound, match="cannot be read"):
            await handouts.refresh(course("folder", path), "barbara")


async def test_a_folder_that_is_huge_is_refused(handouts: CourseHandouts, tmp_path: Path) -> None:
    with (tmp_path / "data/big.bin").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    with pytest.raises(InvalidRequest, match="8 MB"):
        await handouts.refresh(course("folder", str(tmp_path / "data")), "barbara")


# -- by itself --------------------------------------------------------------------------------


async def look_at(handouts: CourseHandouts, at: float) -> None:
    """What is done by itself at this time, to its end."""
    handouts.clock = lambda: at
    await handouts.run_due(at)
    await handouts.settled()


async def test_what_runs_is_fetched_by_itself_at_most_hourly(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    now = time.time()
    saved = from_git(server, upstream)
    await handouts.store.courses.add_space(saved)
    await look_at(handouts, now)
    first = await handouts.newest("dl101")
    assert first
    upstream.write("c.txt", "c\n")
    upstream.commit()

    async def later(seconds: float) -> str:
        await look_at(handouts, now + seconds)
        return await handouts.newest("dl101")

    assert await later(1800) == first, "half an hour is too soon"
    assert await later(4000) == first, "no meeting is near"
    at = time.gmtime(now + 5 * 3600)
    single = [{"date": time.strftime("%Y-%m-%d", at), "begins": "00:00", "minutes": 60}]
    single[0]["begins"] = time.strftime("%H:%M", at)
    meeting = saved.course.model_validate({**saved.course.model_dump(), "single": single})
    await handouts.store.courses.save(saved.model_copy(update={"course": meeting}))
    assert await later(4200) == first, "the meeting is far"
    assert await later(4.5 * 3600) != first, "before the meeting it is fetched"


async def test_one_that_fails_is_left_alone_for_an_hour(
    handouts: CourseHandouts, server: GitServer, upstream: Repository
) -> None:
    now = time.time()
    saved = from_git(server, upstream)
    await handouts.store.courses.add_space(saved)
    server.instead = lambda handler: handler.send_error(503)
    await look_at(handouts, now)
    asked = len(server.asked)
    assert asked and "503" in (await handouts.state(saved)).problem
    await look_at(handouts, now + 600)
    assert len(server.asked) == asked
    # The machine's clock was two hours ahead, and is set right.
    await look_at(handouts, now - 7200)
    assert len(server.asked) > asked


# -- names ------------------------------------------------------------------------------------


def test_links_that_stay_inside_are_handed_out() -> None:
    assert link_problem("a/b/link", "../../c") == link_problem("link", ".") == ""
    for bad in ("../../../c", "/c", "x/../../../c", "../..//../c", ".git/x"):
        assert link_problem("a/b/link", bad), bad


def test_folders_that_can_be_collected() -> None:
    assert folder_problem("dl101/week 1") == folder_problem("Übung") == ""
    for bad in ("", "/", "..", "a/..", "/etc", ".ssh", "a/.config", "a\0b", "a//b", "x" * 300):
        assert folder_problem(bad), bad


def test_every_name_is_a_folder_of_its_own() -> None:
    names = [
        "ada", "..", ".", "...", "a/b", "a%2Fb", "Ada", "x" * 255, "x" * 254, "a\0b", "ä", "%",
        ".ada", "%2Eada", "\u202e", "con",
    ]  # fmt: skip
    made = [safe_name(name) for name in names]
    assert len(set(made)) == len(names)
    for one in made:
        assert one and "/" not in one and not one.startswith(".") and len(one.encode()) < 200
        assert one.isascii() and one.isprintable()
