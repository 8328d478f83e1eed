"""The live board of a course, with a Slurm and a Hub that a test plays: what tiles say, that all
who watch cost one look, and who may do what to whose session. On the real ones:
tests/browser/courses/test_course_pages.py."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fake_hub import FakeHub
from fake_watcher import WillingSlurm
from machine_clock import awake
from session_endpoints import catalog_of, parts_on, person, said, served
from session_records import recorded
from stored_courses import a_course, stored

from portal.assembly import Services
from portal.courses.live.board import ClusterState, Rows, bare, tiles
from portal.errors import Conflict, NotFound, StoreUnavailable
from portal.handlers.courses import board as course_board
from portal.handlers.courses import people
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.cluster.dashboard import GpuItem, JobItem
from portal.models.cluster.gpu import GpuState
from portal.models.course.board import Tile, TileState
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.course.live import Help, HelpState, Presence
from portal.models.course.start import CourseStart, Seat, SeatState, StartKind
from portal.models.scope import COURSES_MANAGE
from portal.models.session.resources import Resources
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import Role
from portal.store import Store
from portal.work.course.parts import CourseParts

NOW = time.time() // 1
IMAGE = Environment(
    name="torch", title="PyTorch", kind="container", image="/images/torch.sif", max_time="4:00:00"
)
STUDENTS = [f"student{number:03}" for number in range(1, 301)]


@pytest.fixture(scope="module", autouse=True)
def now() -> None:
    """Tests are collected long before they run."""
    global NOW
    NOW = time.time() // 1


def course(name: str = "dl", **more: Any) -> StoredCourse:
    today = date.today()
    fields = {
        "title": f"Course {name}",
        "environment": "torch",
        "begins": today - timedelta(days=1),
        "ends": today + timedelta(days=30),
        "largest": Resources(time="2:00:00"),
        **more,
    }
    return stored(a_course(name, **fields), pinned=IMAGE, created_at=NOW, changed_at=NOW)


def member(person: str, role: Role = Role.STUDENT, of: str = "dl") -> CourseMember:
    return CourseMember(course=of, person=person, role=role)


def session(person: str, state: SessionState = SessionState.RUNNING, **more: Any) -> SessionRecord:
    fields = {
        "id": f"S-{person}",
        "user": person,
        "server": "course-dl",
        "space": "dl",
        "job_id": f"{1000 + STUDENTS.index(person)}" if person in STUDENTS else "77",
        "environment": "torch",
        "state": state,
        "submitted_at": NOW - 600,
        "ready_at": NOW - 500,
        **more,
    }
    return recorded(**fields)


def present(person: str) -> dict[str, Any]:
    return {"course": "dl", "person": person, "session_id": f"S-{person}", "seen_at": NOW}


def one(rows: Rows, seen: ClusterState | None = None, person: str = "student001") -> Tile:
    (found,) = [t for t in tiles(course(), rows, seen or ClusterState()) if t.person == person]
    return found


def rows(**more: Any) -> Rows:
    return Rows(members=[member("student001"), member("barbara", Role.INSTRUCTOR)], **more)


# -- tiles --------------------------------------------------------------------------------------


def test_staff_have_no_tile_and_who_never_started_has_nothing_to_say() -> None:
    (found,) = tiles(course(), rows(), ClusterState())
    assert (found.person, found.state, found.words) == ("student001", TileState.NONE, "")


def test_a_waiting_session_says_why() -> None:
    record = session("student001", SessionState.PENDING)
    job = JobItem(id=record.job_id, state="PENDING", words="waits: all GPUs are in use")
    found = one(rows(sessions=[record]), ClusterState(jobs={record.job_id: job}))
    assert (found.state, found.words) == (TileState.WAITING, "Waits: all GPUs are in use.")
    assert found.since == record.submitted_at


def test_a_running_session_says_what_it_does() -> None:
    record = session("student001")
    job = JobItem(
        id=record.job_id, state="RUNNING", words="", gpus=2, gpu_type="v100", cpus=4,
        gpu_indexes={"gpu01": (0, 1)}, end_time=NOW + 60,
    )  # fmt: skip
    gpus = {
        f"gpu01/{index}": GpuItem(
            node="gpu01", index=index, type="v100", state=GpuState.BUSY, utilization=use
        )
        for index, use in ((0, 20.0), (1, 60.0))
    }
    presence = Presence(
        course="dl", person="student001", session_id=record.id, seen_at=NOW,
        opened_at=NOW - 400, last_activity=NOW - 30, notebooks=("lab1/train.ipynb",),
        hand="Why is it slow?", hand_at=NOW - 10,
    )  # fmt: skip
    help_ = Help(
        course="dl", student="student001", server="course-dl", session_id=record.id,
        helper="barbara", state=HelpState.ASKED, minutes=15, asked_at=NOW,
    )  # fmt: skip
    found = one(
        rows(sessions=[record], presences=[presence], helps=[help_]),
        ClusterState(jobs={record.job_id: job}, gpus=gpus),
    )
    assert found.state is TileState.RUNNING
    assert (found.gpus, found.gpu_use, found.ends_at) == (2, 40.0, NOW + 60)
    assert found.notebooks == ("lab1/train.ipynb",)
    assert (found.hand, found.last_activity) == ("Why is it slow?", NOW - 30)
    assert found.help == help_
    plain = bare(found)
    assert (plain.notebooks, plain.hand, plain.hand_at, plain.last_activity) == ((), "", None, None)
    assert (plain.state, plain.gpu_use) == (TileState.RUNNING, 40.0)


def test_kernels_in_jobs_of_their_own_and_runs_are_told_of() -> None:
    """They are no sessions of the course: the tile stays the session's."""
    kernel = {"id": "K-1", "server": "kernel-01234567", "job_id": "2001"}
    records = [
        session("student001"),
        session("student001", **kernel),
        session("student001", SessionState.PENDING, **{**kernel, "id": "K-2", "job_id": "2002"}),
        session("student001", **{**kernel, "id": "K-3", "job_id": "2003", "space": "ml"}),
        session("student001", SessionState.ENDED, **{**kernel, "id": "K-4"}),
        session("student001", id="R-1", server="run-01234567", job_id="2005"),
    ]
    held = {"gpu01": (0, 1)}
    jobs = {
        "1000": JobItem(id="1000", state="RUNNING", words="", cpus=2),
        "2001": JobItem(id="2001", state="RUNNING", words="", gpu_indexes=held),
        "2002": JobItem(id="2002", state="PENDING", words="", gpus=1),
    }
    gpus = {
        f"gpu01/{index}": GpuItem(
            node="gpu01", index=index, type="v100", state=GpuState.BUSY, utilization=percent
        )
        for index, percent in enumerate((20.0, 60.0))
    }
    tile = one(rows(sessions=records), ClusterState(jobs=jobs, gpus=gpus))
    assert (tile.session_id, tile.gpus, tile.cpus) == ("S-student001", 0, 2)
    assert (tile.kernels, tile.kernel_gpus, tile.gpu_use, tile.runs) == (2, 2, 40.0, 1)
    tile = one(rows(sessions=records[1:2]))
    assert (tile.state, tile.kernels, tile.runs) == (TileState.NONE, 1, 0)


def test_what_another_session_told_is_not_this_ones() -> None:
    presence = Presence(
        course="dl", person="student001", session_id="S-old", seen_at=NOW, hand="?", hand_at=NOW
    )
    found = one(rows(sessions=[session("student001")], presences=[presence]))
    assert found.hand == ""


@pytest.mark.parametrize("ending", ["out_of_memory", "start_failed", "walltime", "stopped"])
def test_how_the_last_one_ended(ending: str) -> None:
    record = session(
        "student001", SessionState.ENDED, ended_at=NOW, ending_code=ending, ending_message="Why."
    )
    found, failed = one(rows(sessions=[record])), ending in ("out_of_memory", "start_failed")
    assert found.state is (TileState.FAILED if failed else TileState.NONE)
    assert found.words
    assert (found.words == "Why.") is failed


def test_other_servers_and_courses_are_never_looked_at() -> None:
    others = [
        session("student001", server=""),
        session("student001", server="rehearsal-dl"),
        session("student001", space="ml", server="course-ml"),
        session("student001", space="", server="course-dl"),
    ]
    assert one(rows(sessions=others)).state is TileState.NONE


def test_of_two_sessions_the_newer_counts_and_an_ended_one_over_what_memory_has() -> None:
    record = session("student001")
    again = session("student001", id="S2", submitted_at=NOW, state=SessionState.PENDING)
    assert one(rows(sessions=[again, record])).session_id == "S2"
    over = record.model_copy(update={"state": SessionState.ENDED, "ended_at": NOW})
    found = one(rows(sessions=[over]), ClusterState(sessions={record.job_id: record}))
    assert found.state is TileState.NONE


@pytest.mark.parametrize("step", [3600.0, 0.0, -3600.0])
def test_one_that_lives_counts_whatever_the_clock_showed_when_others_began(step: float) -> None:
    living = session("student001")
    over = living.model_copy(
        update={
            "id": "S0", "job_id": "1", "state": SessionState.ENDED, "ended_at": NOW,
            "submitted_at": living.submitted_at + step,
        }
    )  # fmt: skip
    for found in ([over, living], [living, over]):
        assert one(rows(sessions=found)).session_id == living.id
        assert one(rows(sessions=[over]), ClusterState(sessions={living.job_id: living})).session_id


@pytest.mark.parametrize(
    ("seat", "state", "words"),
    [
        (SeatState.WAITING, TileState.WAITING, "The portal will start the session soon."),
        (SeatState.STARTING, TileState.WAITING, "The Hub is starting the session."),
        (SeatState.FAILED, TileState.FAILED, "You have no account in Slurm."),
        (SeatState.RELEASED, TileState.NONE, ""),
    ],
)
def test_a_start_says_how_far_a_seat_is(seat: SeatState, state: TileState, words: str) -> None:
    message = words if seat is SeatState.FAILED else ""
    start = CourseStart(id=1, course="dl", kind=StartKind.ALL, by="barbara", asked_at=NOW)
    seats = [Seat(start_id=1, person="student001", state=seat, message=message, asked_at=NOW)]
    found = one(rows(start=start, seats=seats))
    assert (found.state, found.words) == (state, words)


@pytest.mark.parametrize("state", [SeatState.WAITING, SeatState.STARTING])
def test_a_start_says_that_it_waits_for_slurm(state: SeatState) -> None:
    start = CourseStart(id=1, course="dl", kind=StartKind.ALL, by="barbara", asked_at=NOW)
    seats = [Seat(start_id=1, person="student001", state=state, asked_at=NOW)]
    found = one(rows(start=start, seats=seats), ClusterState(away=True))
    assert found.state is TileState.WAITING
    assert found.words == "Slurm does not respond. The start is waiting."


@pytest.mark.parametrize("state", [SessionState.PENDING, SessionState.STARTING])
def test_a_session_that_starts_says_whether_slurm_and_its_node_answer(state: SessionState) -> None:
    record = session("student001", state, nodes=("cpu01",))
    found = one(rows(sessions=[record]), ClusterState(silent=frozenset({"cpu01", "cpu02"})))
    assert found.words == "The node cpu01 does not respond to Slurm."
    found = one(rows(sessions=[record]), ClusterState(silent=frozenset({"cpu02"})))
    assert "does not answer" not in found.words
    found = one(rows(sessions=[record]), ClusterState(away=True))
    assert found.words == "Slurm does not respond. The start is waiting."
    # A session that runs does so without Slurm, too.
    found = one(rows(sessions=[session("student001")]), ClusterState(away=True))
    assert (found.state, found.words) == (TileState.RUNNING, "")


# -- the API ------------------------------------------------------------------------------------

TOKENS: dict[str, tuple[str, ...]] = {
    "barbara": (),
    "alan": (),  # an assistant
    "student001": (),
    "grace": (COURSES_MANAGE,),
    "ada": (),
    "other": (),  # teaches another course
}


def model_of(token: str) -> dict[str, Any] | None:
    """The Hub's model of a token, which is a person's name."""
    return person(token, *TOKENS[token]) if token in TOKENS else None


class Hub(FakeHub):
    """Hub that refuses some users' servers, and counts stops at the same time."""

    def __init__(self) -> None:
        super().__init__(running=dict.fromkeys(((r.user, r.server) for r in RECORDS), "ready"))
        self.at_once = self.most = 0
        self.refused: set[str] = set()

    async def make_people(self, names: Any) -> dict[str, str]:
        missing = "The directory has no such person."
        refused = {name: missing for name in names if name == "student253"}
        self.strangers -= set(names) - set(refused)
        return refused

    async def start_server(self, user: str, server: str, options: Any) -> None:
        assert options == {"course": "dl"}
        if user in self.refused:
            raise Conflict("The course's GPU-hours are used up.")
        if user in self.strangers:
            raise NotFound("The Hub has no such server.")
        await super().start_server(user, server, options)

    async def stop_server(self, user: str, server: str, **about: Any) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.005)
        self.at_once -= 1
        if user in self.refused:
            raise Conflict("The Hub cannot do this now.")
        await super().stop_server(user, server, **about)


class Slurm(WillingSlurm):
    """A job of each record; ``looks`` counts the snapshots."""

    refresh_interval = 5.0

    def __init__(self, records: list[SessionRecord]) -> None:
        super().__init__()
        self.records = records
        self.looks = 0
        self.limits: dict[str, int] = {}

    def jobs(self) -> dict[str, Job]:
        return {
            one.job_id: Job(
                id=one.job_id,
                user=one.user,
                state=JobState.RUNNING,
                nodes=("gpu01",),
                start_time=NOW - 500,
                end_time=NOW - 500 + self.limits.get(one.job_id, 3600),
                time_limit=self.limits.get(one.job_id, 3600),
            )
            for one in self.records
        }

    async def snapshot(self, *_: Any, **__: Any) -> ClusterSnapshot:
        self.looks += 1
        return ClusterSnapshot(taken_at=time.time(), jobs=self.jobs(), error=self.error)

    async def extend(self, job_id: str, limit: int) -> None:
        self.limits[job_id] = limit

    @property
    def view(self) -> Any:
        items = {id_: JobItem(id=id_, state="RUNNING", words="") for id_ in self.jobs()}
        return SimpleNamespace(
            error="",
            taken_at=NOW,
            simulated=True,
            sessions={one.job_id: one for one in self.records},
            jobs=SimpleNamespace(bare=items),
            gpus={},
            snapshot=ClusterSnapshot(taken_at=time.time(), jobs=self.jobs()),
        )


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, hub: Hub, slurm: Slurm) -> None:
        self.client = client
        self.parts, self.hub, self.slurm = parts, hub, slurm
        self.rows = 0

    async def ask(self, token: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        return await self.client.request(method, path, content=content, headers=headers)

    async def post(self, token: str, path: str, body: Any = None) -> httpx.Response:
        return await self.ask(token, "POST", f"courses/dl/{path}", body)

    async def board(self, token: str = "barbara", version: str = "") -> httpx.Response:
        return await self.ask(token, "GET", f"courses/dl/board?version={version}")

    async def audit(self) -> list[tuple[str, str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find(limit=500)
        return [(e.actor, e.action, e.target, e.owner, str(e.outcome)) for e in entries]


# 200 of the 300 have a session; one has another of their own, too.
RECORDS = (
    *map(session, STUDENTS[:200]),
    session("student001", id="own", server="", space="", job_id="9"),
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a course of 300 in it, to be copied."""
    file = tmp_path_factory.mktemp("board") / "portal.sqlite"

    async def fill() -> None:
        store = Store(url=f"sqlite:///{file}")
        await store.upgrade()
        staff = [member("barbara", Role.INSTRUCTOR), member("alan", Role.ASSISTANT)]
        await store.courses.add_space(course(), [*staff, *map(member, STUDENTS)])
        await store.courses.add_space(course("ml"), [member("other", Role.INSTRUCTOR, "ml")])
        for record in RECORDS:
            await store.sessions.save(record)
        await store.close()

    asyncio.run(fill())
    return file


@pytest.fixture
async def site(
    tmp_path: Path, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    """The course of 300 on a site of its own."""
    monkeypatch.setattr("portal.handlers.courses.people._LOOK", 0.001)
    monkeypatch.setattr("portal.handlers.sessions.extend._PAUSE", 0.0)
    shutil.copyfile(filled, tmp_path / "portal.sqlite")
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite")
    hub, slurm = Hub(), Slurm(list(RECORDS))

    parts = parts_on(
        store,
        **dict.fromkeys(("cluster", "control", "dashboard"), slurm),
        catalog=catalog_of(IMAGE),
        telemetry=SimpleNamespace(simulated=True),
        hub=hub,
    )
    stock = parts.parts_for(CourseParts).boards._rows

    async def counted(kept: StoredCourse) -> Rows:
        made.rows += 1
        return await stock(kept)

    monkeypatch.setattr(parts.parts_for(CourseParts).boards, "_rows", counted)
    kinds = (*course_board.ENDPOINTS, *people.ENDPOINTS)
    async with served(kinds, parts, model_of, logins=True) as client:
        made = Site(client, parts, hub, slurm)
        yield made


async def test_the_board_of_three_hundred_costs_one_look_for_all_who_watch(site: Site) -> None:
    begun = awake()
    answers = await asyncio.gather(*(site.board() for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert site.rows == 1
    assert site.slurm.looks == 0  # the dashboard's own loop asks Slurm, nobody who watches does
    assert awake() - begun < 10
    board = answers[0].json()
    assert len(board["tiles"]) == 300
    assert board["counts"] == {"running": 200, "none": 100}
    assert board["simulated"] is True
    assert board["tiles"][0]["person"] == "student001"
    assert len(answers[0].content) < 100_000


async def test_who_has_it_already_gets_the_version_alone(site: Site) -> None:
    version = (await site.board()).json()["version"]
    again = (await site.board(version=version)).json()
    assert again["same"] is True
    assert again["version"] == version
    assert "tiles" not in again
    hand = Presence(**present("student002"), hand="Help!", hand_at=NOW)
    await site.parts.store.presence.raise_hand(hand)
    site.parts.parts_for(CourseParts).boards.forget("dl")
    board = (await site.board(version=version)).json()
    assert board["version"] != version
    assert board["hands"] == 1
    assert board["tiles"][1]["hand"] == "Help!"


async def test_what_is_known_stays_while_the_database_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.board()

    async def away(kept: StoredCourse) -> Rows:
        raise StoreUnavailable("The portal's database does not answer.")

    monkeypatch.setattr(site.parts.parts_for(CourseParts).boards, "_rows", away)
    site.parts.parts_for(CourseParts).boards.forget("dl")
    board = (await site.board()).json()
    assert len(board["tiles"]) == 300
    assert "database" in board["error"]


async def test_an_admin_sees_states_and_nothing_of_what_students_do(site: Site) -> None:
    work = Presence(**present("student001"), last_activity=NOW, notebooks=("secret.ipynb",))
    await site.parts.store.presence.save_report(work)
    staff, admin = await site.board("alan"), await site.board("grace")
    assert "secret.ipynb" in staff.text
    assert admin.status_code == 200
    assert "secret.ipynb" not in admin.text
    assert admin.json()["counts"] == {"running": 200, "none": 100}


@pytest.mark.parametrize("token", ["ada", "other", "student001"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "board", None),
        ("POST", "people/student001/start", None),
        ("POST", "people/student001/stop", None),
        ("POST", "people/student001/restart", None),
        ("POST", "people/student001/extend", {"minutes": 30}),
        ("POST", "stop-all", {}),
        ("POST", "extend-all", {"minutes": 30}),
    ],
)
async def test_who_does_not_teach_it_is_refused_and_written_down(
    site: Site, token: str, method: str, path: str, body: Any
) -> None:
    answer = await site.ask(token, method, f"courses/dl/{path}", body)
    assert answer.status_code == 403, answer.text
    assert [line[:3] for line in await site.audit()] == [(token, "denied", "course dl")]
    assert site.hub.granted == []
    assert site.slurm.limits == {}


@pytest.mark.parametrize("verb", ["start", "stop", "restart", "extend"])
async def test_somebody_who_is_not_in_the_course_is_out_of_reach(site: Site, verb: str) -> None:
    body = {"minutes": 30} if verb == "extend" else None
    answer = await site.post("barbara", f"people/ada/{verb}", body)
    assert answer.status_code == 403
    assert said(answer) == "ada is not a member of the course 'dl'."
    assert await site.audit() == [("barbara", "denied", "course dl", "ada", "refused")]
    assert site.hub.granted == []


async def test_one_is_stopped_and_never_another_session_of_theirs(site: Site) -> None:
    answer = await site.post("alan", "people/student001/stop")
    assert answer.status_code == 200, answer.text
    assert site.hub.granted == [("stop", "student001", "course-dl")]
    assert ("student001", "") in site.hub.running
    (line,) = await site.audit()
    assert line == ("alan", "stop-session", "session S-student001", "student001", "done")
    answer = await site.post("alan", "people/student250/stop")
    assert (answer.status_code, said(answer)) == (
        409,
        "student250 has no session of this course.",
    )


async def test_one_is_started_as_its_student_would(site: Site) -> None:
    assert (await site.post("barbara", "people/student250/start")).status_code == 200
    assert site.hub.granted == [("start", "student250", "course-dl")]
    assert (await site.audit())[0][:4] == ("barbara", "start-session", "course dl", "student250")
    site.hub.refused.add("student251")
    answer = await site.post("barbara", "people/student251/start")
    assert (answer.status_code, said(answer)) == (409, "The course's GPU-hours are used up.")
    assert (await site.audit())[0][4] == "failed"


async def test_one_who_never_logged_in_is_started(site: Site) -> None:
    site.hub.strangers |= {"student252", "student253"}
    answer = await site.post("barbara", "people/student252/start")
    assert answer.status_code == 200, answer.text
    assert site.hub.granted == [("start", "student252", "course-dl")]
    answer = await site.post("barbara", "people/student253/start")
    assert (answer.status_code, said(answer)) == (409, "The directory has no such person.")
    assert len(site.hub.granted) == 1


async def test_a_student_opens_their_own_session_and_nothing_else(site: Site) -> None:
    assert (await site.post("student001", "open", {})).status_code == 200
    assert site.hub.granted == []  # it runs already
    del site.hub.running["student001", "course-dl"]
    assert (await site.post("student001", "open", {})).status_code == 200
    assert site.hub.granted == [("start", "student001", "course-dl")]
    refused = await site.post("student001", "open", {"preview": True})
    assert refused.status_code == 403
    assert (await site.post("alan", "open", {"preview": True})).status_code == 200
    assert site.hub.granted[1:] == [("start", "alan", "preview-dl")]
    for stranger in ("ada", "grace", "other"):
        assert (await site.post(stranger, "open", {})).status_code == 403
    assert len(site.hub.granted) == 2


async def test_a_restart_waits_until_the_old_one_is_gone(site: Site) -> None:
    answer = await site.post("barbara", "people/student001/restart")
    assert answer.status_code == 200, answer.text
    assert site.hub.granted == [
        ("stop", "student001", "course-dl"),
        ("start", "student001", "course-dl"),
    ]


async def test_one_is_extended_though_owners_may_not(site: Site) -> None:
    site.parts.extending.allowed = False
    answer = await site.post("barbara", "people/student003/extend", {"minutes": 30})
    assert answer.status_code == 200, answer.text
    assert list(site.slurm.limits.values()) == [5400]


async def test_no_session_gets_longer_than_its_course_says(site: Site) -> None:
    path = "people/student003/extend"
    answer = await site.post("barbara", path, {"minutes": 90})
    assert answer.status_code == 403
    assert "'Course dl: PyTorch' allows a time limit of at most 2 h" in said(answer)
    assert site.slurm.limits == {}
    all_of_them = (await site.post("barbara", "extend-all", {"minutes": 90})).json()
    assert all_of_them["done"] == 0
    assert site.slurm.limits == {}
    assert (await site.post("barbara", path, {"minutes": 60})).status_code == 200
    assert list(site.slurm.limits.values()) == [7200]


async def test_all_are_stopped_some_at_a_time_each_with_a_result(site: Site) -> None:
    site.hub.refused.add("student007")
    answer = (await site.post("barbara", "stop-all", {})).json()
    assert (answer["done"], len(answer["items"])) == (199, 200)
    (failed,) = [item for item in answer["items"] if not item["done"]]
    assert (failed["person"], failed["message"]) == ("student007", "The Hub cannot do this now.")
    assert 1 < site.hub.most <= 8
    assert ("student001", "") in site.hub.running
    assert len(await site.audit()) == 200


async def test_some_are_stopped_and_strangers_stop_nothing(site: Site) -> None:
    answer = (
        await site.post("barbara", "stop-all", {"people": ["student001", "student300"]})
    ).json()
    assert site.hub.granted == [("stop", "student001", "course-dl")]
    assert {item["person"]: item["done"] for item in answer["items"]} == {
        "student001": True,
        "student300": False,
    }
    refused = await site.post("barbara", "stop-all", {"people": ["student002", "ada"]})
    assert refused.status_code == 403
    assert len(site.hub.granted) == 1
    assert (await site.audit())[0][:3] == ("barbara", "denied", "course dl")


async def test_their_kernels_end_with_them(site: Site) -> None:
    kernel = {"server": "kernel-01234567", "job_id": "2001"}
    others = {"server": "kernel-76543210", "job_id": "2002", "space": ""}
    records = (
        session("student001", id="K-1", **kernel),
        session("student300", id="K-2", **{**kernel, "job_id": "2003"}),  # left by its session
        session("student001", id="K-3", **others),  # the student's own
    )
    await site.parts.store.sessions.save(*records)
    site.hub.running.update(((r.user, r.server), "ready") for r in records)
    assert (await site.post("alan", "people/student001/stop")).status_code == 200
    assert site.hub.granted == [
        ("stop", "student001", "course-dl"),
        ("stop", "student001", "kernel-01234567"),
    ]
    site.hub.granted.clear()
    answer = await site.post("barbara", "stop-all", {"people": ["student002", "student300"]})
    assert answer.json()["done"] == 2, answer.text
    assert sorted(site.hub.granted) == [
        ("stop", "student002", "course-dl"),
        ("stop", "student300", "kernel-01234567"),
    ]
    assert ("student001", "kernel-76543210") in site.hub.running


async def test_their_runs_end_when_all_is_stopped_and_not_with_a_session(site: Site) -> None:
    run = {"server": "run-01234567", "job_id": "2001"}
    records = (
        session("student001", id="R-1", **run),
        session("student300", id="R-2", **{**run, "job_id": "2002"}),  # without a session
        session("student003", id="R-3", **{**run, "job_id": "2003"}),
        session("student004", id="R-4", **{**run, "job_id": "2004", "space": ""}),
    )
    await site.parts.store.sessions.save(*records)
    site.hub.running.update(((r.user, r.server), "ready") for r in records)
    for path in ("people/student001/stop", "people/student002/restart"):
        assert (await site.post("alan", path)).status_code == 200
    assert not [asked for asked in site.hub.granted if asked[2].startswith("run-")]
    people = ["student003", "student004", "student300"]
    answer = await site.post("barbara", "stop-all", {"people": people})
    assert answer.status_code == 200, answer.text
    stopped = [asked[1:] for asked in site.hub.granted if asked[2].startswith("run-")]
    assert sorted(stopped) == [("student003", "run-01234567"), ("student300", "run-01234567")]


async def test_all_are_extended_by_one_look_at_slurm(site: Site) -> None:
    answer = (await site.post("barbara", "extend-all", {"minutes": 30})).json()
    assert answer["done"] == 200, answer["items"][0]
    assert site.slurm.looks == 1
    assert set(site.slurm.limits.values()) == {5400}
    assert "9" not in site.slurm.limits  # a session of their own
