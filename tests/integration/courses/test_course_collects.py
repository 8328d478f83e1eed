"""Folders that courses collect: from the session's own packing to the zip, with hostile files."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import socket
import tarfile
import time
import zipfile
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from git_server import git
from machine_clock import awake
from portal_session.course import collecting as session
from portal_session.course.collecting import Collecting as Giving
from portal_session.course.handouts import Handouts
from portal_session.service import Address, Service, ServiceError
from session_endpoints import parts_on, served
from session_records import recorded
from stored_courses import a_course, stored

from portal.assembly import Services
from portal.courses.files import unpacking
from portal.courses.settings import Courses
from portal.handlers.courses import collects
from portal.handlers.courses import handouts as course_handouts
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.course.course import CourseMember
from portal.models.course.start import StartKind
from portal.models.scope import SESSION_OWN
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import Role
from portal.setting import SiteSettings
from portal.store import Store
from portal.work.course.parts import CourseParts

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
TODAY = date.today()
STUDENTS = ("ada", "bob")
PEOPLE = {"ada": Role.STUDENT, "bob": Role.STUDENT, "barbara": Role.INSTRUCTOR}


def model_of(token: str) -> dict[str, Any]:
    """The Hub's model of a token, which is a person's name, or "NAME/SERVER"."""
    name, slash, _ = token.partition("/")
    scopes = [f"{SESSION_OWN}!server={token}"] if slash else ["access:services"]
    return {"name": name, "kind": "user", "scopes": scopes}


def as_person(kind: type[Any]) -> type[Any]:
    """The endpoint, with who asks asked of the test's Hub."""

    async def hub_model(self: Any) -> Any:
        hub = self.settings["hub_auth"]
        return await hub.user_for_token(hub.get_token(self), sync=False)

    def check_hub_user(self: Any, model: dict[str, Any]) -> dict[str, Any]:
        return model

    methods = {"hub_model": hub_model, "check_hub_user": check_hub_user}
    return type(kind.__name__, (kind,), methods)


class Site:
    """The endpoints on loopback, with a course, its staff, and a session of each student."""

    def __init__(self, parts: Services, client: httpx.AsyncClient, place: Path) -> None:
        self.parts, self.url, self.place = parts, str(client.base_url), place
        self.client = client

    async def ask(self, who: str, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        return await self.client.request(method, path, headers=headers, **more)

    async def staff(self, method: str, path: str = "", **more: Any) -> httpx.Response:
        return await self.ask("barbara", method, f"courses/dl101/collects{path}", **more)

    async def begin(self, folder: str = "dl101/work") -> int:
        answer = await self.staff("POST", json={"folder": folder})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    async def give(self, who: str, id: int, body: bytes, **query: str) -> httpx.Response:
        path = f"session/collects/{id}"
        return await self.ask(f"{who}/course-dl101", "PUT", path, content=body, params=query)

    async def item(self) -> dict[str, Any]:
        return dict((await self.staff("GET")).json()["items"][0])

    def session(self, who: str) -> Service:
        """What the session's own program speaks through."""
        environ = {"SLURM_JOB_ID": f"job-{who}"}
        base = self.url.removesuffix("/api/v1/")
        return Service(Address(base, f"{who}/course-dl101"), environ)

    def kept(self) -> list[Path]:
        """Every file that is kept of what was collected."""
        place = self.place / "courses/dl101/collected"
        return sorted(path for path in place.rglob("*") if not path.is_dir())


def record(name: str, server: str = "course-dl101", course: str = "dl101") -> SessionRecord:
    return recorded(
        id=f"S-{name}-{server}", user=name, server=server, space=course, job_id=f"job-{name}",
        environment="torch", state=SessionState.RUNNING, submitted_at=time.time(),
    )  # fmt: skip


@pytest.fixture
async def site(tmp_path: Path, store: Store) -> AsyncIterator[Site]:
    days = {"begins": TODAY - timedelta(days=1), "ends": TODAY + timedelta(days=9)}
    course = a_course("dl101", environment="torch", **days)
    kept = stored(course)
    members = [
        CourseMember(course="dl101", person=name, role=role) for name, role in PEOPLE.items()
    ]
    await store.courses.add_space(kept, members)
    await store.courses.add_space(
        kept.model_copy(update={"course": course.model_copy(update={"name": "x"})})
    )
    records = {f"job-{name}": record(name) for name in (*PEOPLE, "eve")}
    jobs = {one: Job(id=one, user="u", state=JobState.RUNNING) for one in records}
    view = SimpleNamespace(
        error="", sessions=records, snapshot=ClusterSnapshot(taken_at=time.time(), jobs=jobs)
    )
    settings = Courses(
        directory=str(tmp_path / "courses"), collect_megabytes=2, handouts_megabytes=2
    )
    dashboard = SimpleNamespace(view=view, error="")
    parts = parts_on(store, dashboard=dashboard, settings=SiteSettings(None, settings))
    kinds = [*collects.ENDPOINTS, *course_handouts.ENDPOINTS]
    endpoints = [one if one.path.startswith("session") else as_person(one) for one in kinds]
    async with served(endpoints, parts, model_of) as client:
        yield Site(parts, client, tmp_path)


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as tar:
        for about, content in members:
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return into.getvalue()


def member(name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, to: str = "") -> Any:
    about = tarfile.TarInfo(name)
    about.type, about.linkname = kind, to
    return about, content


# -- the whole way ----------------------------------------------------------------------------


async def test_from_the_sessions_to_the_zip(site: Site, tmp_path: Path) -> None:
    homes = {name: tmp_path / "homes" / name for name in STUDENTS}
    for name, home in homes.items():
        (home / "dl101/work/deep").mkdir(parents=True)
        (home / f"dl101/work/{name}.ipynb").write_text(f"{name}'s\n")
        (home / "dl101/work/deep/ü.txt").write_text("deep\n")
        (home / "dl101/work/passwd").symlink_to("/etc/passwd")
        (home / "dl101/work/.git").mkdir()
        (home / "dl101/work/.git/config").write_text("hooks")
        (home / "dl101/other.txt").write_text("not collected\n")
    id = await site.begin()
    waiting = await site.parts.parts_for(CourseParts).open_collects.of_session(record("ada"))
    assert [(one.id, one.folder) for one in waiting] == [(id, "dl101/work")]
    assert (await site.item())["missing"] == ["ada", "bob"]
    told = {"collects": [one.model_dump() for one in waiting]}
    ada = Giving(site.session("ada"), homes["ada"], logging.getLogger("session"))
    assert await asyncio.to_thread(ada.apply_situation, told) == 0.0
    item = await site.item()
    assert item["missing"] == ["bob"]
    (given,) = item["given"]
    assert (given["person"], given["files"], given["size"]) == ("ada", 2, 6 + 5)
    assert "1 links" in given["message"] and given["at"] <= time.time()
    site.parts.parts_for(CourseParts).open_collects.forget()
    assert await site.parts.parts_for(CourseParts).open_collects.of_session(record("ada")) == ()
    assert len(await site.parts.parts_for(CourseParts).open_collects.of_session(record("bob"))) == 1
    # Bob's session starts later, while it is open.
    bob = Giving(site.session("bob"), homes["bob"], logging.getLogger("session"))
    await asyncio.to_thread(bob.apply_situation, told)
    assert (await site.item())["missing"] == []

    answer = await site.staff("GET", f"/{id}/download")
    assert answer.status_code == 200
    named = answer.headers["content-disposition"]
    assert any(f"dl101-{day:%Y-%m-}" in named for day in (TODAY, date.today()))
    with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
        texts = {name.partition("/")[2]: found.read(name) for name in found.namelist()}
        assert all(name.partition("/")[0].endswith(f"dl101_work-{id}") for name in found.namelist())
    assert texts == {
        "ada/ada.ipynb": b"ada's\n", "ada/deep/ü.txt": b"deep\n",
        "bob/bob.ipynb": b"bob's\n", "bob/deep/ü.txt": b"deep\n",
    }  # fmt: skip
    closed = await site.staff("POST", f"/{id}/close")
    assert closed.status_code == 200 and closed.json()["closed_at"]
    assert (await site.give("ada", id, packed(member("late.txt")))).status_code == 409
    site.parts.parts_for(CourseParts).open_collects.forget()
    assert await site.parts.parts_for(CourseParts).open_collects.of_session(record("bob")) == ()
    for path in [*site.kept(), *(path.parent for path in site.kept())]:
        assert path.stat().st_mode & 0o077 == 0, path
    audited = [one.action for one in (await site.parts.store.audit.find(limit=50))[0]]
    assert {"collect", "close-collection", "download-collection"} <= set(audited)


async def test_what_is_given_again_takes_the_place_whole(site: Site) -> None:
    id = await site.begin()
    await site.give("ada", id, packed(member("old.txt"), member("both.txt", b"1")))
    assert (await site.give("ada", id, packed(member("both.txt", b"2")))).status_code == 204
    assert [(path.name, path.read_text()) for path in site.kept()] == [("both.txt", "2")]
    assert (await site.give("ada", id, b"no tar at all" * 100)).status_code == 400
    assert [(path.name, path.read_text()) for path in site.kept()] == [("both.txt", "2")]


async def test_who_has_no_such_folder_is_missing_and_says_why(site: Site, tmp_path: Path) -> None:
    id = await site.begin()
    home = tmp_path / "home"
    home.mkdir()
    ada = Giving(site.session("ada"), home, logging.getLogger("session"))
    told = {"collects": [{"id": id, "folder": "dl101/work"}]}
    await asyncio.to_thread(ada.apply_situation, told)
    item = await site.item()
    assert "There is no folder 'dl101/work'" in item["given"][0]["message"]
    assert item["missing"] == ["ada", "bob"]
    assert len(await site.parts.parts_for(CourseParts).open_collects.of_session(record("ada"))) == 1
    # The next server of hers tries again.
    (home / "dl101/work").mkdir(parents=True)
    await asyncio.to_thread(ada.apply_situation, told)
    assert (await site.item())["missing"] == ["ada", "bob"], "not this one"
    again = Giving(site.session("ada"), home, logging.getLogger("session"))
    await asyncio.to_thread(again.apply_situation, told)
    assert (await site.item())["missing"] == ["bob"]


# -- what hostile sessions send -----------------------------------------------------------------


async def test_only_plain_files_below_the_folder_are_kept(site: Site, tmp_path: Path) -> None:
    id = await site.begin()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    body = packed(
        member("good.txt", b"good"),
        member("../out.txt"),
        member("/tmp/abs.txt"),
        member("a/../../out.txt"),
        member("link", b"", tarfile.SYMTYPE, str(tmp_path)),
        member("link/secret", b"overwritten"),
        member("hard", b"", tarfile.LNKTYPE, str(secret)),
        member("device", b"", tarfile.CHRTYPE),
        member("pipe", b"", tarfile.FIFOTYPE),
        member(".git/hooks/post-checkout", b"#!/bin/sh"),
        member("sub/.GIT/config", b"evil"),
        member("good.txt", b"twice"),
        member("good.txt/below", b"under a file"),
        member("bad\nname"),
        member("..\\..\\Startup\\evil.bat"),  # of who unpacks the zip on another machine
        member("x/" * 60 + "deep"),
    )
    answer = await site.give("ada", id, body, left_out="2")
    assert answer.status_code == 204, answer.text
    names = {path.name: path.read_text() for path in site.kept()}
    assert names == {"good.txt": "good", "secret": "overwritten"}
    assert not any(path.is_symlink() for path in site.kept())
    assert secret.read_text() == "secret" and not Path("/tmp/abs.txt").exists()
    given = (await site.item())["given"][0]
    assert given["files"] == 2 and "16 links or special files" in given["message"]
    assert {path.stat().st_mode & 0o777 for path in site.kept()} == {0o600}


async def test_too_much_is_refused_in_words(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    id = await site.begin()
    big = packed(*(member(f"{number}.bin", bytes(1024 * 1024)) for number in range(3)))
    answer = await site.give("ada", id, big)
    assert (answer.status_code, "more than 2 MB" in answer.text) == (400, True)
    monkeypatch.setattr("portal.courses.files.collecting.FILES", 3)
    many = packed(*(member(f"{number}.txt") for number in range(5)))
    assert "more than 3 files" in (await site.give("ada", id, many)).text
    monkeypatch.setattr("portal.handlers.courses.collects._HEADERS", 0)
    answer = await site.give("ada", id, bytes(2 * 1024 * 1024 + 1))
    assert (answer.status_code, "The limit is 2 MB" in answer.text) == (413, True)

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(64 * 1024)

    headers = {"Authorization": "token ada/course-dl101"}
    path = f"session/collects/{id}"
    answer = await site.client.put(path, content=endless(), headers=headers)
    assert answer.status_code == 413, "without a length it is counted"
    assert site.kept() == [] and (await site.item())["given"] == []
    assert list((site.place / "courses/.incoming").iterdir()) == []


def sparse() -> bytes:
    """A few bytes that claim to be a file of 8 GB, as GNU tar writes holes."""
    about = tarfile.TarInfo("sparse.bin")
    about.size, about.type = 0, tarfile.GNUTYPE_SPARSE
    header = bytearray(about.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = tarfile.itn(8 * 1024**3, 12, tarfile.GNU_FORMAT)
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


@pytest.mark.parametrize(
    "body",
    [
        b"\0" * 511,
        b"garbage" * 1000,
        packed(member("cut.txt", bytes(5000)))[:2000],
        sparse(),
        packed(member("a", b"", tarfile.XHDTYPE)) * 3,
    ],
    ids=["short", "garbage", "cut", "sparse", "headers"],
)
async def test_what_is_no_tar_leaves_nothing(site: Site, body: bytes) -> None:
    id = await site.begin()
    answer = await site.give("ada", id, body)
    assert answer.status_code in (204, 400), answer.text
    assert "Traceback" not in answer.text
    assert sum(path.stat().st_size for path in site.kept()) == 0


async def test_a_reader_that_hangs_is_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr("portal.courses.files.collecting.sys.executable", str(slow))
    monkeypatch.setattr("portal.courses.files.collecting._SECONDS", 0.5)
    id = await site.begin()
    began = awake()
    answer = await site.give("ada", id, packed(member("a.txt")))
    assert answer.status_code == 400 and awake() - began < 20
    assert site.kept() == []


async def test_names_of_people_are_folders_of_their_own(site: Site) -> None:
    id = await site.begin()
    collect = await site.parts.store.collects.get("dl101", id)
    kept = await site.parts.store.courses.get("dl101")
    tar = site.place / "a.tar"
    tar.write_bytes(packed(member("a.txt")))
    names = ["..", ".", ".hidden", "a\\b", "x" * 255, "ä"]
    for name in names:
        await site.parts.parts_for(CourseParts).collecting.take(kept, collect, name, tar)
    place = site.parts.parts_for(CourseParts).collecting.place(kept, collect)
    assert len([one for one in place.iterdir() if one.is_dir()]) == len(names)
    assert len(site.kept()) == len(names)
    assert all(path.is_relative_to(place) for path in site.kept())


# -- who may ------------------------------------------------------------------------------------


async def test_a_body_that_no_method_takes_is_answered(site: Site) -> None:
    for path in ("courses/dl101/handouts", "session/collects/1"):
        answer = await site.ask("barbara", "PATCH", path, content=b"x" * 100_000)
        assert answer.status_code == 405, answer.text


async def test_nobody_fills_the_disk_with_files_that_never_end(site: Site) -> None:
    """All that comes lies on the service's disk until it is whole, whatever becomes of it."""
    id, ended = await site.begin(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * 1024
        await ended.wait()

    place = site.place / "courses/.incoming"
    path, headers = f"session/collects/{id}", {"Authorization": "token ada/course-dl101"}
    slow = [
        asyncio.ensure_future(site.client.put(path, headers=headers, content=endless()))
        for _ in range(4)
    ]
    while not place.is_dir() or len(list(place.iterdir())) < 4:
        await asyncio.sleep(0.01)
    one_more = await site.give("ada", id, packed(member("good.txt")))
    assert one_more.status_code == 429 and "4 files" in one_more.json()["error"]["message"]
    assert (await site.give("bob", id, packed(member("good.txt")))).status_code == 204
    ended.set()
    assert {answer.status_code for answer in await asyncio.gather(*slow)} == {400}
    assert (await site.give("ada", id, packed(member("good.txt")))).status_code == 204


async def test_only_the_courses_staff_collects(site: Site) -> None:
    id = await site.begin()
    for who in ("ada", "eve", "grace"):
        for method, path in (
            ("GET", ""), ("POST", ""), ("POST", f"/{id}/close"), ("GET", f"/{id}/download"),
        ):  # fmt: skip
            answer = await site.ask(
                who, method, f"courses/dl101/collects{path}", json={"folder": "x"}
            )
            assert answer.status_code == 403, (who, method, path)
    assert (await site.staff("GET", "/999/download")).status_code == 404


async def test_only_a_session_of_the_course_gives(site: Site) -> None:
    id = await site.begin()
    body = packed(member("a.txt"))
    assert (await site.give("eve", id, body)).status_code == 403  # is not in the course
    assert (await site.ask("ada", "PUT", f"session/collects/{id}", content=body)).status_code == 403
    assert (await site.give("ada", 999, body)).status_code == 404
    sessions = site.parts.dashboard.view.sessions  # type: ignore[union-attr]
    sessions["job-ada"] = record("ada", "room-dl101")
    answer = await site.ask("ada/room-dl101", "PUT", f"session/collects/{id}", content=body)
    assert answer.status_code == 409
    sessions["job-ada"] = record("ada", "", "")
    answer = await site.ask("ada/", "PUT", f"session/collects/{id}", content=body)
    assert answer.status_code == 409 and "not belong to a course" in answer.text
    assert site.kept() == []


@pytest.mark.parametrize("folder", ["", "..", "/", "a/../..", ".ssh", "x/.config", "a\u0007b"])
async def test_other_folders_are_refused(site: Site, folder: str) -> None:
    answer = await site.staff("POST", json={"folder": folder})
    assert answer.status_code == 400, answer.text


async def test_a_folder_is_collected_once_at_a_time(site: Site) -> None:
    id = await site.begin("work")
    assert (await site.staff("POST", json={"folder": "/work/"})).status_code == 409
    await site.staff("POST", f"/{id}/close")
    assert await site.begin("work") != id


# -- what the session packs -----------------------------------------------------------------------


def test_no_link_is_followed_on_any_step(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "work").mkdir(parents=True)
    (outside / "work/secret").write_text("secret")
    home = tmp_path / "home"
    home.mkdir()
    (home / "a").symlink_to(outside)
    (home / "b").mkdir()
    (home / "b/work").symlink_to(outside / "work")
    for folder in ("a/work", "b/work", "nothing", "a/work/secret"):
        with pytest.raises(session.NothingToGive):
            session.pack(home, folder, io.BytesIO())


def test_what_cannot_be_packed_is_left_out_and_counted(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("a")
    (work / "link").symlink_to("/etc/passwd")
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(work / "socket"))
        into = io.BytesIO()
        assert session.pack(tmp_path, "work", into) == 3
    into.seek(0)
    with tarfile.open(fileobj=into) as tar:
        assert tar.getnames() == ["a.txt"]


def test_too_large_a_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    for number in range(4):
        (tmp_path / f"work/{number}").write_text("x")
    monkeypatch.setattr(session, "FILES", 3)
    with pytest.raises(session.NothingToGive, match="too large"):
        session.pack(tmp_path, "work", io.BytesIO())


def test_a_file_that_grows_is_packed_as_it_was(tmp_path: Path) -> None:
    class Growing:
        def read(self, size: int) -> bytes:
            return b"xx"[:size]

    assert session._Exactly(Growing(), 3).read() == b"xx\0"


def test_the_program_says_what_is_wrong_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "a.tar").write_bytes(b"nothing")
    arguments = [str(tmp_path / "a.tar"), str(tmp_path / "to"), "100", "10"]
    assert unpacking.main(arguments) == 0
    assert "not a complete tar" in json.loads(capsys.readouterr().out)["error"]


# -- handouts over HTTP -------------------------------------------------------------------------


async def test_a_file_goes_from_the_page_to_the_session(site: Site, tmp_path: Path) -> None:
    ada = site.session("ada")
    target = tmp_path / "got.bundle"
    with pytest.raises(ServiceError, match="not handed out any"):
        await asyncio.to_thread(ada.download, "session/handouts", target)
    target.unlink(missing_ok=True)
    text = b"1\n" * 700_000  # more than c.PortalService.max_body
    path = "courses/dl101/handouts"
    made = await site.ask("barbara", "POST", path, params={"path": "week1/a.txt"}, content=text)
    assert made.status_code == 200, made.text
    revision = made.json()["revision"]
    assert made.json()["files"] == [{"path": "week1/a.txt", "size": len(text), "uploaded": True}]
    found = await site.parts.parts_for(CourseParts).course_situations.handout_of(record("ada"))
    assert found == revision
    # While the class is being started, it waits for whoever has not come.
    kept = await site.parts.store.courses.get("dl101")
    await site.parts.parts_for(CourseParts).course_work.starter.start(
        kept, StartKind.ALL, "barbara"
    )
    assert await site.parts.parts_for(CourseParts).course_situations.handout_of(record("ada")) == ""
    await asyncio.to_thread(ada.download, "session/handouts", target)
    git(tmp_path, "clone", "-q", str(target), "got")
    assert (tmp_path / "got/week1/a.txt").read_bytes() == text
    answer = await site.ask("ada/course-dl101", "GET", "session/handouts")
    assert answer.headers["etag"] == f'"{revision}"'
    headers = {"Authorization": "token ada/course-dl101", "If-None-Match": f'"{revision}"'}
    assert (await site.client.get("session/handouts", headers=headers)).status_code == 304

    report = {"revision": revision, "message": "Files of yours \u2028 are beside."}
    await asyncio.to_thread(ada.ask, "PUT", "session/handouts/report", report)
    (presence,) = await site.parts.store.presence.of_course("dl101")
    assert (presence.person, presence.handout) == ("ada", revision)
    assert presence.handout_message == "Files of yours   are beside."

    taken = await site.ask("barbara", "DELETE", path, params={"path": "week1/a.txt"})
    assert taken.status_code == 200 and taken.json()["files"] == []


async def test_a_rehearsal_takes_nothing_from_the_board(site: Site) -> None:
    """Whoever else is in the course's room has its token, and a rehearsal runs beside students."""
    report = {"revision": "a" * 40, "message": ""}
    path = "session/handouts/report"
    assert (await site.ask("ada/course-dl101", "PUT", path, json=report)).status_code == 204
    sessions = site.parts.dashboard.view.sessions  # type: ignore[union-attr]
    for kind in ("rehearsal", "preview", "room"):
        sessions["job-ada"] = record("ada", f"{kind}-dl101")
        other = {"revision": "b" * 40, "message": "Look here."}
        answer = await site.ask(f"ada/{kind}-dl101", "PUT", path, json=other)
        assert answer.status_code == 204, answer.text
    (presence,) = await site.parts.store.presence.of_course("dl101")
    assert (presence.session_id, presence.handout) == ("S-ada-course-dl101", "a" * 40)


async def test_who_may_hand_out_and_who_gets_it(site: Site) -> None:
    path, query = "courses/dl101/handouts", {"path": "a.txt"}
    for who in ("ada", "eve"):
        answer = await site.ask(who, "POST", path, params=query, content=b"x")
        assert answer.status_code == 403
        assert (await site.ask(who, "GET", path)).status_code == 403
        assert (await site.ask(who, "POST", f"{path}/refresh")).status_code == 403
    assert (await site.ask("barbara", "POST", path, params=query, content=b"x")).status_code == 200
    assert (await site.ask("eve/course-dl101", "GET", "session/handouts")).status_code == 403
    assert (await site.ask("ada", "GET", "session/handouts")).status_code == 403
    await site.parts.store.members.remove("dl101", ["bob"])
    site.parts.memberships.forget()
    assert (await site.ask("bob/course-dl101", "GET", "session/handouts")).status_code == 403
    answer = await site.ask("barbara", "POST", path, params={"path": "../x"}, content=b"x")
    assert answer.status_code == 400 and "leads out" in answer.text
    answer = await site.ask("barbara", "POST", path, content=b"x")
    assert answer.status_code == 400 and "path" in answer.text
    big = bytes(2 * 1024 * 1024 + 1)
    answer = await site.ask("barbara", "POST", path, params=query, content=big)
    assert answer.status_code == 413 and "The limit is 2 MB" in answer.text


async def test_the_session_brings_what_was_handed_out(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way over HTTP: the session's own program, with its merge."""
    # It finds this checkout's package, as it finds the installed one.
    monkeypatch.setattr("portal_session.course.handouts.ISOLATED", "-P")
    monkeypatch.setenv("PYTHONPATH", str(KERNELS))
    path = "courses/dl101/handouts"
    await site.ask("barbara", "POST", path, params={"path": "a.txt"}, content=b"1\n2\n3\n")
    home = tmp_path / "home"
    home.mkdir()
    handouts = Handouts(site.session("ada"), "dl101", home, logging.getLogger("session"))
    revision = await site.parts.parts_for(CourseParts).handouts.newest("dl101")
    await asyncio.to_thread(handouts.apply_situation, {"handout": revision})
    assert (home / "dl101/a.txt").read_text() == "1\n2\n3\n"
    (home / "dl101/a.txt").write_text("mine\n2\n3\n")
    await site.ask("barbara", "POST", path, params={"path": "b.txt"}, content=b"b\n")
    revision = await site.parts.parts_for(CourseParts).handouts.newest("dl101")
    await asyncio.to_thread(handouts.apply_situation, {"handout": revision})
    assert (home / "dl101/a.txt").read_text() == "mine\n2\n3\n"
    assert (home / "dl101/b.txt").read_text() == "b\n"
    (presence,) = await site.parts.store.presence.of_course("dl101")
    assert presence.handout == revision
