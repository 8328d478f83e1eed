"""A colleague's session by consent, through the API with a real database; the Hub is played. With a
real one: tests/browser/test_project_visits.py."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from courses_site import CATALOG, Cluster, Directory, snapshot
from fake_hub import FakeHub
from pydantic import ValidationError
from session_endpoints import of_server, parts_on, person, served
from session_records import recorded

from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.courses.live import helping
from portal.errors import HubUnavailable
from portal.handlers.base import entry
from portal.handlers.routes import endpoints
from portal.launch.course_space import CourseSpace
from portal.models.cluster.cluster import Job, JobState
from portal.models.scope import PROJECTS_MANAGE
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import STAFF, Role, SpaceState
from portal.projects.models import Project, ProjectMember, StoredProject
from portal.projects.parts import ProjectParts
from portal.projects.settings import Projects
from portal.projects.space import ProjectSpace
from portal.projects.tables import ProjectTable
from portal.projects.visits.endpoints import ENDPOINTS
from portal.setting import SiteSettings
from portal.spaces.job_space import JobSpace
from portal.store import Store
from portal.web.audit_rate_limit import AuditRateLimit
from portal.work.course.kind import Room
from portal.work.course.parts import CourseParts

VISITS = "projects/proteins/visits"
ROLES = {"olga": Role.OWNER, "mike": Role.MEMBER, "mary": Role.MEMBER, "rita": Role.READER}
ASK = {"user": "olga", "server": "", "minutes": 10}
DOOR = ("olga", "", "mike")  # the share while mike visits olga


class Shares(FakeHub):
    """The Hub with its shares."""

    def __init__(self) -> None:
        super().__init__()
        self.now: set[tuple[str, str, str]] = set()

    def _there(self) -> None:
        if self.away:
            raise HubUnavailable("The Hub does not answer. Try again in a moment.")

    async def share(self, user: str, server: str, person: str) -> str:
        self._there()
        self.now.add((user, server, person))
        return f"http://{user}.localhost/user/{user}/{server}"

    async def unshare(self, user: str, server: str, person: str) -> None:
        self._there()
        self.now.discard((user, server, person))

    async def shares(self) -> list[tuple[str, str, str]]:
        """Return none: the server of the test is one of no space by then."""
        self._there()
        return []


class Site:
    """A project with running sessions of olga, who owns it, and of rita, who reads."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, people: dict[str, Any]) -> None:
        self.client, self.parts, self.people = client, parts, people
        self.hub: Shares = parts.hub
        self.table = parts.store.table(ProjectTable)
        parts.parts_for(CourseParts).helping.subdomains = True

    @property
    def helping(self) -> helping.Helping:
        return self.parts.parts_for(CourseParts).helping

    async def begin(self) -> None:
        now = time.time()
        stored = StoredProject(
            project=Project(name="proteins", title="Proteins"), state=SpaceState.APPROVED,
            created_by="olga", created_at=now, changed_at=now,
        )  # fmt: skip
        other = stored.model_copy(update={"project": Project(name="other", title="Other")})
        for each in (stored, other):
            members = [
                ProjectMember(project=each.name, person=who, role=role, added_at=now)
                for who, role in ROLES.items()
            ]
            await self.table.add_space(each, members)
        await self.session("olga", "0")
        await self.session("rita", "1", server="read")

    async def session(self, user: str, job_id: str, **more: Any) -> SessionRecord:
        """Record one that runs; its token is "session-JOB"."""
        values = {"server": "", "space": "proteins", "work": "jupyterlab", **more}
        record = recorded(
            id=f"S{job_id}", user=user, job_id=job_id, state=SessionState.RUNNING,
            submitted_at=time.time(), **values,
        )  # fmt: skip
        await self.parts.store.sessions.save(record)
        view: Any = self.parts.dashboard.view
        view.sessions[job_id] = record
        job = Job(id=job_id, user=user, state=JobState.RUNNING)
        view.snapshot = view.snapshot.model_copy(
            update={"jobs": {**view.snapshot.jobs, job_id: job}}
        )
        self.people[f"session-{job_id}"] = of_server(user, record.server)
        return record

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def done(self, who: str, method: str, path: str, body: Any = None) -> Any:
        response = await self.ask(who, method, path, body)
        assert response.status_code < 300, response.text
        return response.json() if response.content else None

    async def refused(self, status: int, who: str, method: str, path: str, body: Any = None) -> str:
        response = await self.ask(who, method, path, body)
        assert response.status_code == status, response.text
        return str(response.json()["error"]["message"])

    async def answer(self, number: int, answer: str, job_id: str = "0") -> Any:
        path = f"session/help/{number}"
        return await self.done(f"session-{job_id}", "POST", path, {"answer": answer})

    async def granted(self, minutes: int = 10) -> int:
        """Let mike into olga's session; return the number of that."""
        number = int((await self.done("mike", "POST", VISITS, ASK | {"minutes": minutes}))["id"])
        await self.answer(number, "agree")
        assert await self.guests() == {"mike"} and self.hub.now == {DOOR}
        return number

    async def guests(self, job_id: str = "0") -> set[str]:
        said = await self.done(f"session-{job_id}", "GET", "session/guests")
        return {each["person"] for each in said["guests"]}

    def passes(self, seconds: float) -> float:
        """Let time pass; return the machine's clock afterwards."""
        uptime = self.helping.uptime
        self.helping.uptime = lambda: uptime() + seconds
        return time.time() + seconds

    async def kept(self, number: int) -> tuple[str, str]:
        """Return the state of a request in the database, and who ended it."""
        rows = await self.parts.store.help.of_course("proteins")
        (row,) = [each for each in rows if each.id == number]
        return str(row.state), row.ended_by

    async def audit(self) -> list[tuple[str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find(limit=500)
        return [(e.actor, e.action, e.target, str(e.outcome)) for e in entries]


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite", log=logging.getLogger("service"))
    await store.upgrade()
    files = tmp_path / "environments"
    files.mkdir()
    for name, text in CATALOG.items():
        (files / f"{name}.yaml").write_text(text)
    parts = parts_on(
        store,
        catalog=EnvironmentCatalog(directory=str(files), store=store, offer_untested=True),
        cluster=Cluster(accounts={}),
        telemetry=SimpleNamespace(simulated=False),
        dashboard=SimpleNamespace(
            view=SimpleNamespace(snapshot=snapshot(), sessions={}, jobs={}, taken_at=0), error=""
        ),
        hub=Shares(),
        settings=SiteSettings(None, Projects()),
        directory=Directory(people={*ROLES, "eve"}),
        allowance=AuditRateLimit(most=100_000),
    )
    people = {name: person(name) for name in (*ROLES, "eve")}
    people["grace"] = person("grace", PROJECTS_MANAGE)
    monkeypatch.setattr(entry, "is_click", lambda handler: True)
    async with served(endpoints(), parts, people.get, logins=True) as client:
        made = Site(client, parts, people)
        await made.begin()
        yield made


async def test_a_visit_by_consent(site: Site) -> None:
    before = await site.done("mike", "GET", VISITS)
    sessions = {(session["user"], session["server"]) for session in before["sessions"]}
    assert sessions == {("olga", ""), ("rita", "read")}
    asked = await site.done("mike", "POST", VISITS, ASK)
    number, door = asked["id"], f"{VISITS}/{asked['id']}/enter"
    assert (asked["state"], asked["until"]) == ("asked", None)
    assert await site.guests() == set() and not site.hub.now
    message = await site.refused(409, "mike", "POST", door, {})
    assert message == "olga has not agreed that you open this session."
    # The session tells its owner; the page tells both and nobody else.
    told = site.parts.parts_for(ProjectParts).visits
    record = site.parts.dashboard.view.sessions["0"]  # type: ignore[union-attr]
    (seen,) = told.status_of(record)["project"].help
    assert (seen.helper, seen.minutes, str(seen.state)) == ("mike", 10, "asked")
    for who, sees in (("olga", 1), ("mike", 1), ("mary", 0), ("rita", 0)):
        assert len((await site.done(who, "GET", VISITS))["visits"]) == sees, who
    # Nobody else answers, and a repeated request is the same.
    answer = {"answer": "agree"}
    await site.refused(404, "session-1", "POST", f"session/help/{number}", answer)
    assert (await site.done("mike", "POST", VISITS, ASK | {"minutes": 20}))["id"] == number

    reply = await site.answer(number, "agree")
    assert reply["until"] == pytest.approx(time.time() + 600, abs=5)
    assert site.hub.now == {DOOR} and await site.guests() == {"mike"}
    assert await site.guests("1") == set()
    (visit,) = (await site.done("olga", "GET", VISITS))["visits"]
    assert (visit["state"], visit["visitor"], visit["yours"]) == ("granted", "mike", True)
    await site.done("mike", "POST", door, {})
    assert site.hub.admitted == [DOOR]
    await site.answer(number, "end")
    assert await site.guests() == set() and not site.hub.now
    await site.refused(404, "mike", "POST", door, {})
    assert await site.kept(number) == ("ended", "olga")
    lines = [line[:2] for line in await site.audit() if line[3] == "done"]
    for line in (
        ("mike", "ask-to-visit"), ("olga", "agree-to-visit"), ("portal", "grant-visit"),
        ("mike", "enter-visit"), ("olga", "end-visit"),
    ):  # fmt: skip
        assert line in lines


async def test_a_refusal_stands_for_a_while(site: Site) -> None:
    number = (await site.done("mike", "POST", VISITS, ASK))["id"]
    await site.answer(number, "refuse")
    assert await site.kept(number) == ("refused", "olga") and not site.hub.now
    message = await site.refused(409, "mike", "POST", VISITS, ASK)
    assert message == "olga has refused this. You can ask again in 5 min."
    await site.done("mary", "POST", VISITS, ASK)  # another member's question
    site.passes(301)
    number = (await site.done("mike", "POST", VISITS, ASK))["id"]
    await site.done("olga", "POST", f"{VISITS}/{number}/end")  # on the project's page
    assert await site.kept(number) == ("refused", "olga")
    await site.refused(409, "mike", "POST", VISITS, ASK)


async def test_what_cannot_be_asked_for(site: Site) -> None:
    assert "your own session" in await site.refused(400, "olga", "POST", VISITS, ASK)
    for user in ("eve", "nobody", "grace"):
        message = await site.refused(404, "mike", "POST", VISITS, ASK | {"user": user})
        assert message == f"'{user}' is not a member of this project."
    message = await site.refused(409, "mike", "POST", VISITS, ASK | {"server": "x"})
    assert message == "olga has no running session of this project."
    # A program has no door that closes; a session of another project is none of this one's.
    await site.session("mary", "2", server="code", work="code-server")
    await site.session("mary", "3", server="else", space="other")
    await site.session("mary", "4", server="mine", space="")
    for server in ("code", "else", "mine"):
        await site.refused(409, "mike", "POST", VISITS, {"user": "mary", "server": server})
    asked = (await site.done("mike", "GET", VISITS))["sessions"]
    assert "mary" not in {session["user"] for session in asked}
    for minutes in (0, 61, "x", True, None):
        await site.refused(400, "mike", "POST", VISITS, ASK | {"minutes": minutes})
    for hostile in ("a/b", "", "x" * 256, "a\nb", 7, None):
        await site.refused(400, "mike", "POST", VISITS, ASK | {"user": hostile})
    assert not site.hub.now and site.helping.of_space("proteins") == ()


async def test_without_subdomains_there_are_none(site: Site) -> None:
    site.helping.subdomains = False
    assert "subdomain_host" in await site.refused(403, "mike", "POST", VISITS, ASK)
    listed = await site.done("mike", "GET", VISITS)
    assert "subdomain_host" in listed["why_off"] and listed["sessions"] == []


@pytest.mark.parametrize(
    "over", ["time", "session", "visitor", "owner", "reader", "archived", "unanswered"]
)
async def test_a_visit_ends_by_itself(site: Site, over: str) -> None:
    now, store = time.time(), site.parts.store
    if over == "unanswered":
        number = (await site.done("mike", "POST", VISITS, ASK))["id"]
    else:
        number = await site.granted()
    await site.helping.run_due(now)
    assert len(site.helping.of_space("proteins")) == 1, "nothing is over yet"
    if over == "time":
        now = site.passes(601)
    elif over == "unanswered":
        now = site.passes(helping.ANSWER_WITHIN + 1)
    elif over == "session":
        record = await store.sessions.get("S0")
        assert record is not None
        await store.sessions.save(record.model_copy(update={"state": SessionState.ENDED}))
    elif over == "archived":
        stored = await site.table.get("proteins")
        await site.table.save(stored.model_copy(update={"state": SpaceState.ARCHIVED}))
    elif over == "reader":
        member = ProjectMember(project="proteins", person="mike", role=Role.READER, added_at=now)
        await site.table.members.put([member])
    else:
        gone = "mike" if over == "visitor" else "olga"
        await site.table.members.remove("proteins", [gone])
    await site.helping.run_due(now)
    assert not site.hub.now and site.helping.guests("S0") == {}
    assert ("portal", "end-visit", "session S0", "done") in await site.audit()
    assert (await site.kept(number))[0] == "ended"


async def test_an_archived_project_has_no_visits(site: Site) -> None:
    stored = await site.table.get("proteins")
    await site.table.save(stored.model_copy(update={"state": SpaceState.ARCHIVED}))
    message = await site.refused(409, "mike", "POST", VISITS, ASK)
    assert message == "This project is not approved."
    site.parts.memberships.forget()
    assert (await site.done("mike", "GET", VISITS))["sessions"] == []


async def test_who_ends_a_visit(site: Site) -> None:
    number = await site.granted()
    end = f"{VISITS}/{number}/end"
    assert "Only the visitor" in await site.refused(403, "mary", "POST", end)
    await site.refused(403, "eve", "POST", end)
    await site.refused(404, "olga", "POST", end.replace("proteins", "other"))
    assert await site.guests() == {"mike"}
    assert ("mary", "end-visit", "session S0", "refused") in await site.audit()
    await site.done("grace", "POST", end)
    assert await site.guests() == set() and await site.kept(number) == ("ended", "grace")
    for who in ("mike", "olga"):
        site.helping._refusals.clear()
        await site.done(who, "POST", f"{VISITS}/{await site.granted()}/end")
        assert await site.guests() == set() and not site.hub.now


async def test_a_share_is_taken_back_though_hub_and_service_were_away(site: Site) -> None:
    """Its server may be one of no space by then, which is not among those that are looked for."""
    number, parts = await site.granted(), site.parts
    site.hub.away = True
    await site.done("mike", "POST", f"{VISITS}/{number}/end")
    assert await site.guests() == set() and site.hub.now == {DOOR}
    of_courses = parts.parts_for(CourseParts)
    of_courses.helping = helping.Helping(
        parts.store, parts.hub, of_courses.settings, True, parts.note, parts.log
    )
    with pytest.raises(HubUnavailable):
        await site.helping.run_due(time.time())
    assert site.hub.now == {DOOR}
    site.hub.away = False
    await site.helping.run_due(time.time())
    assert not site.hub.now


async def test_a_new_service_goes_on_with_visits(site: Site) -> None:
    await site.granted()
    parts, of_courses = site.parts, site.parts.parts_for(CourseParts)
    of_courses.helping = helping.Helping(
        parts.store, parts.hub, of_courses.settings, True, parts.note, parts.log
    )
    await site.helping.run_due(time.time())
    assert await site.guests() == {"mike"} and site.hub.now == {DOOR}
    await site.helping.run_due(site.passes(601))
    assert await site.guests() == set() and not site.hub.now


async def test_a_session_of_a_project_is_none_of_a_course(site: Site) -> None:
    for method, path in (("PUT", "presence"), ("PUT", "hand"), ("DELETE", "hand")):
        body = {} if method == "PUT" else None
        message = await site.refused(409, "session-0", method, f"session/{path}", body)
        assert message == "This session does not belong to a course."
    assert await site.parts.store.presence.of_course("proteins") == []


def test_the_rule_that_the_hub_asks_once_more() -> None:
    pairs = [(helper, owner) for helper in (*Role, None) for owner in (*Role, None)]
    assert {pair for pair in pairs if ProjectSpace.may_help(*pair)} == {
        (helper, owner) for helper in (Role.OWNER, Role.MEMBER) for owner in Role
    }
    assert {pair for pair in pairs if CourseSpace.may_help(*pair)} == {
        (helper, Role.STUDENT) for helper in STAFF
    }
    assert not any(JobSpace.may_help(*pair) for pair in pairs)


def test_why_a_project_has_no_room() -> None:
    with pytest.raises(ValidationError, match="a project has no room: it would run as one member"):
        Project(name="proteins", title="Proteins", together=True)
    words = Room.not_offered(Project(name="proteins", title="Proteins"))
    assert words.startswith("The project 'Proteins' has no room: it would run as one member")
    assert "open their session instead" in words and "can allow" not in words


# -- who may do what -------------------------------------------------------------------------------

_MEMBERS = frozenset(ROLES)
# Method, address, body and those who may, of olga (owner, of the session too), mike (member and
# visitor), mary (member), rita (reader), eve (outsider) and grace (admin).
MATRIX: list[tuple[str, str, Any, frozenset[str]]] = [
    ("GET", VISITS, None, _MEMBERS | {"grace"}),
    ("POST", VISITS, {"user": "rita", "server": "read"}, frozenset({"olga", "mike", "mary"})),
    ("POST", f"{VISITS}/{{visit_id}}/enter", {}, frozenset({"mike"})),
    ("POST", f"{VISITS}/{{visit_id}}/end", None, frozenset({"olga", "mike", "grace"})),
]


async def test_roles_and_routes(site: Site) -> None:
    deviations, number = [], await site.granted()
    for method, path, body, may in MATRIX:
        for who in (*ROLES, "eve", "grace"):
            address = path.replace("{visit_id}", str(number))
            answer = await site.ask(who, method, address, body)
            if (answer.status_code < 300) != (who in may):
                deviations.append((who, method, path, answer.status_code))
            if who not in may and who in ("eve", "rita"):
                assert answer.status_code == 403, (path, answer.text)
            if path.endswith("/end") and answer.status_code < 300:
                number = await site.granted()
    assert deviations == []
    routes = {
        (method.upper(), kind.path.replace("{project}", "proteins"))
        for kind in ENDPOINTS
        for method in kind.operations
    }
    assert routes == {row[:2] for row in MATRIX}
