"""The API of projects, with a real database; Slurm, the Hub and the directory are fakes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from courses_site import CATALOG, Cluster, Directory, snapshot
from fake_hub import FakeHub
from session_endpoints import parts_on, person, served
from session_records import recorded

from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.errors import HubUnavailable
from portal.handlers.routes import endpoints
from portal.models.cluster.cluster import Association
from portal.models.person import Person
from portal.models.scope import PROJECTS_MANAGE
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import Role, SpaceState
from portal.projects.parts import ProjectParts
from portal.projects.settings import Projects
from portal.projects.tables import ProjectTable
from portal.setting import SiteSettings
from portal.store import Store
from portal.web.audit_rate_limit import AuditRateLimit

PROTEINS: dict[str, Any] = {
    "name": "proteins",
    "title": "Proteins",
    "description": "Folding.",
    "account": "teaching",
    "budget": 100,
    "largest": {"gpus": 2},
}
NO_VISIT: Any = None
ADMIN = Person(name="grace", scopes=frozenset({PROJECTS_MANAGE}))
PEOPLE = {
    "olga": person("olga"),  # owner
    "mike": person("mike"),  # member
    "rita": person("rita"),  # reader
    "eve": person("eve"),  # outsider
    "grace": person("grace", PROJECTS_MANAGE),
}


class Site:
    """Endpoints served on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts = client, parts
        self.projects = parts.parts_for(ProjectParts)
        self.hub: FakeHub = parts.hub
        self.directory: Directory = parts.directory

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def done(self, who: str, method: str, path: str, body: Any = None) -> Any:
        response = await self.ask(who, method, path, body)
        assert response.status_code < 300, response.text
        return response.json() if response.content else None

    async def refused(self, status: int, who: str, method: str, path: str, body: Any = None) -> str:
        """Return the sentence of a refusal with this status."""
        response = await self.ask(who, method, path, body)
        assert response.status_code == status, response.text
        return str(response.json()["error"]["message"])

    async def approved(self, **more: Any) -> dict[str, Any]:
        """Create a project of olga with mike and rita, which grace approves."""
        members = [{"person": "mike", "role": "member"}, {"person": "rita", "role": "reader"}]
        body = {"project": PROTEINS | more, "members": members}
        made = await self.done("olga", "POST", "projects", body)
        assert made["state"] == "requested"
        path = f"projects/{made['project']['name']}"
        body = {"number": made["number"]}
        return dict(await self.done("grace", "POST", f"{path}/approve", body))

    async def audit(self) -> list[tuple[str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find(limit=500)
        return [(e.actor, e.action, e.target, str(e.outcome)) for e in entries]

    async def session(self, user: str, state: str = "running", **more: Any) -> SessionRecord:
        """Record a session of the project 'proteins'."""
        values = {"submitted_at": time.time(), "work": "jupyterlab", "space": "proteins", **more}
        record = recorded(
            id=f"s-{user}", user=user, server="work", state=SessionState(state), **values
        )
        await self.parts.store.sessions.save(record)
        return record


@contextlib.asynccontextmanager
async def running(place: Path, **settings: Any) -> AsyncIterator[Site]:
    """Yield a site."""
    store = Store(url=f"sqlite:///{place}/portal.sqlite", log=logging.getLogger("service"))
    await store.upgrade()
    files = place / "environments"
    files.mkdir()
    for name, text in CATALOG.items():
        (files / f"{name}.yaml").write_text(text)
    view = SimpleNamespace(snapshot=snapshot(), sessions={}, jobs={}, taken_at=0)
    rows = (Association(user="olga", account="teaching"),)
    people = {*PEOPLE, "ned"}
    parts = parts_on(
        store,
        catalog=EnvironmentCatalog(directory=str(files), store=store, offer_untested=True),
        cluster=Cluster(accounts={"olga": rows}),
        telemetry=SimpleNamespace(simulated=False),
        dashboard=SimpleNamespace(view=view, error=""),
        hub=FakeHub(),
        settings=SiteSettings(None, Projects(**settings)),
        directory=Directory(people=people),
        allowance=AuditRateLimit(most=100_000),
    )
    async with served(endpoints(), parts, PEOPLE.get, logins=True) as client:
        yield Site(client, parts)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path) as site:
        yield site


async def test_a_project_is_requested_approved_and_seen_by_its_members(site: Site) -> None:
    made = await site.approved()
    assert (made["state"], made["role"], made["answered_by"]) == ("approved", None, "grace")
    for who, role in (("olga", "owner"), ("mike", "member"), ("rita", "reader")):
        (item,) = (await site.done(who, "GET", "projects"))["items"]
        assert (item["name"], item["role"], item["budget"]) == ("proteins", role, 100)
    assert (await site.done("eve", "GET", "projects"))["items"] == []
    assert (await site.done("grace", "GET", "projects"))["total"] == 1
    assert (await site.done("grace", "GET", "projects?mine=true"))["total"] == 0
    detail = await site.done("rita", "GET", "projects/proteins")
    assert detail["may"] == ["leave"] and detail["project"]["description"] == "Folding."
    assert [m["person"] for m in detail["members"]] == ["mike", "olga", "rita"]
    audited = {entry[:3] for entry in await site.audit()}
    assert ("olga", "create-project", "project proteins") in audited
    assert ("grace", "approve-project", "project proteins") in audited


async def test_the_policy_approves_what_it_says_and_nothing_more(tmp_path: Path) -> None:
    async with running(
        tmp_path, approval="policy", largest_budget=100, largest_members=3, per_user=4
    ) as site:

        async def state(**more: Any) -> str:
            made = await site.done("olga", "POST", "projects", {"project": PROTEINS | more})
            return str(made["state"])

        assert await state() == "approved"
        assert await state(name="p2", budget=101) == "requested"
        assert await state(name="p3", budget=None) == "requested"
        assert await state(name="p4", roster_group="staff") == "requested"
        message = await site.refused(403, "olga", "POST", "projects", {"project": PROTEINS})
        assert "the limit is 4" in message
        # An account that Slurm does not let its owner use.
        body = {"project": PROTEINS | {"name": "p5"}}
        assert (await site.done("mike", "POST", "projects", body))["state"] == "requested"
        detail = await site.done("olga", "GET", "projects/proteins")
        more = detail["project"] | {"budget": 500}
        edit = {"project": more, "number": detail["number"]}
        message = await site.refused(403, "olga", "PUT", "projects/proteins", edit)
        assert "more than 100 GPU-hours" in message
        members = {"people": ["mike", "rita", "eve"], "role": "member"}
        message = await site.refused(400, "olga", "POST", "projects/proteins/members", members)
        assert "at most 3 members" in message


async def test_more_than_was_approved_takes_an_admin(site: Site) -> None:
    made = await site.approved(ends="2090-01-01")
    raises: list[tuple[dict[str, Any], str]] = [
        ({"budget": 101}, "budget"),
        ({"budget": None}, "budget"),
        ({"account": None}, "account"),
        ({"ends": "2090-01-02"}, "ends"),
        ({"ends": None}, "ends"),
        ({"largest": {"gpus": 3}}, "largest.gpus"),
        ({"roster_group": "staff"}, "roster_group"),
    ]
    for change, field in raises:
        edit = {"project": made["project"] | change, "number": made["number"]}
        message = await site.refused(403, "olga", "PUT", "projects/proteins", edit)
        assert field in message and "Nothing was changed" in message
    less = {"budget": 50, "ends": "2089-01-01", "title": "Proteins 2"}
    edit = {"project": made["project"] | less, "number": made["number"]}
    saved = await site.done("olga", "PUT", "projects/proteins", edit)
    assert (saved["project"]["budget"], saved["state"]) == (50, "approved")
    message = await site.refused(409, "olga", "PUT", "projects/proteins", edit)
    assert message == "Another user has changed this project. Reload it and try again."
    edit = {"project": saved["project"] | {"budget": 900}, "number": saved["number"]}
    assert (await site.done("grace", "PUT", "projects/proteins", edit))["number"] == 4


async def test_a_refused_project_is_requested_again_and_restoring_approves_nothing(
    site: Site,
) -> None:
    made = await site.done("olga", "POST", "projects", {"project": PROTEINS})
    at = "projects/proteins"
    assert "reason" in await site.refused(400, "grace", "POST", f"{at}/refuse", {"number": 1})
    body = {"number": 1, "answer": "Too much."}
    assert (await site.done("grace", "POST", f"{at}/refuse", body))["state"] == "refused"
    archived = await site.done("olga", "POST", f"{at}/archive", {"number": 2})
    assert archived["state"] == "archived" and archived["may"] == ["restore", "export", "leave"]
    restored = await site.done("olga", "POST", f"{at}/restore", {"number": 3})
    assert restored["state"] == "requested"
    edit = {"project": made["project"] | {"budget": 10}, "number": 4}
    assert (await site.done("olga", "PUT", at, edit))["state"] == "requested"


async def test_a_project_always_has_an_owner(site: Site) -> None:
    await site.approved()
    at = "projects/proteins"
    for method, path, body in (
        ("POST", f"{at}/leave", None),
        ("DELETE", f"{at}/members?person=olga", None),
        ("POST", f"{at}/members", {"people": ["olga"], "role": "reader"}),
    ):
        message = await site.refused(409, "olga", method, path, body)
        assert message.startswith("A project needs an owner")
    await site.done("olga", "POST", f"{at}/members", {"people": ["mike"], "role": "owner"})
    # Both owners leave at the same moment.
    first, second = await asyncio.gather(
        site.ask("olga", "POST", f"{at}/leave"), site.ask("mike", "POST", f"{at}/leave")
    )
    assert sorted((first.status_code, second.status_code)) == [204, 409]
    members = await site.projects.members.members_of("proteins")
    assert [m.role for m in members.values()].count(Role.OWNER) == 1


async def test_it_is_handed_over(site: Site) -> None:
    await site.approved()
    at = "projects/proteins/hand-over"
    detail = await site.done("olga", "POST", at, {"person": "eve"})
    roles = {member["person"]: member["role"] for member in detail["members"]}
    assert (roles["eve"], roles["olga"]) == ("owner", "member") and detail["role"] == "member"
    message = await site.refused(403, "olga", "POST", at, {"person": "mike"})
    assert message == "This requires the role owner. Your role here is member."
    detail = await site.done("grace", "POST", at, {"person": "mike", "giver": "eve"})
    roles = {member["person"]: member["role"] for member in detail["members"]}
    assert (roles["mike"], roles["eve"]) == ("owner", "member")
    assert "no user 'nobody'" in await site.refused(400, "mike", "POST", at, {"person": "nobody"})


async def test_names_are_no_other_space_s(site: Site) -> None:
    from stored_courses import a_course, stored

    await site.parts.store.courses.add_space(stored(a_course("deep")))
    body = {"project": PROTEINS | {"name": "deep"}}
    message = await site.refused(409, "olga", "POST", "projects", body)
    assert message == "A course 'deep' already exists. Choose another name."
    await site.approved()
    with pytest.raises(Exception, match="A project 'proteins' already exists"):
        await site.parts.store.courses.add_space(stored(a_course("proteins")))
    # It is no course, whatever one's role in it.
    assert (await site.ask("olga", "GET", "courses/proteins")).status_code == 403
    assert (await site.ask("olga", "GET", "projects/deep")).status_code == 403
    assert (await site.done("olga", "GET", "courses"))["items"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "../../etc"}, "name"),
        ({"name": "a--b"}, "name"),
        ({"name": "import"}, "reserved"),
        ({"name": "x" * 21}, "name"),
        ({"name": "p\u202ex"}, "name"),
        ({"title": ""}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"title": 'a"b'}, "title"),
        ({"budget": -1}, "budget"),
        ({"budget": "5"}, "budget"),
        ({"runs": 0}, "runs"),
        ({"job_kernels": "yes"}, "job_kernels"),
        ({"together": 0}, "together"),
        ({"ends": 1893456000}, "ends"),
        ({"budget": float("1e300")}, "budget"),
        ({"account": "a b"}, "account"),
        ({"account": "--help"}, "account"),
        ({"account": "nothere"}, "no account 'nothere'"),
        ({"environments": ["secret"]}, "no environment 'secret'"),
        ({"data": "/etc"}, "data"),
        ({"together": True}, "together"),
        ({"ends": "9999-01-01"}, "years"),
        ({"largest": {"gpus": 1, "account": "other"}}, "account"),
        ({"environment": "lab"}, "environment"),
        ({"state": "approved"}, "state"),
    ],
)
async def test_hostile_definitions_are_refused_in_words(
    site: Site, change: dict[str, Any], words: str
) -> None:
    message = await site.refused(400, "olga", "POST", "projects", {"project": PROTEINS | change})
    assert words in message
    text = yaml.safe_dump({"format": 1, "project": PROTEINS | change})
    message = await site.refused(400, "olga", "POST", "projects/import", {"text": text})
    assert words in message
    assert await site.parts.store.table(ProjectTable).all() == []


async def test_it_is_exported_and_imported_under_another_name(site: Site) -> None:
    await site.approved(environments=["lab"], largest={"gpus": 2, "memory": "8G"})
    answer = await site.ask("olga", "GET", "projects/proteins/export")
    assert answer.headers["Content-Type"].startswith("text/plain")
    text = answer.text
    body = {"text": text, "name": "copy", "members": True}
    made = await site.done("mike", "POST", "projects/import", body)
    assert made["project"] == (await site.done("olga", "GET", "projects/proteins"))["project"] | {
        "name": "copy"
    }
    roles = {member["person"]: member["role"] for member in made["members"]}
    assert roles == {"mike": "owner", "olga": "owner", "rita": "reader"}
    assert made["state"] == "requested"
    body = {"text": text, "name": "alone"}
    made = await site.done("mike", "POST", "projects/import", body)
    assert [member["person"] for member in made["members"]] == ["mike"]
    assert "already exists" in await site.refused(409, "mike", "POST", "projects/import", body)


@pytest.mark.parametrize(
    "text",
    [
        "- a",
        "project: 1",
        "project: {",
        "project: &a {name: *a}",
        "!!python/object/apply:os.system ['true']",
        "format: 2\nproject: {name: a, title: A}",
        "project: {name: a, title: A}\nextra: 1",
        "project: {name: a, title: A}\npeople: {owners: ['a b']}",
        "project: {name: a, title: A, name: b}",
        "\x00",
        "",
    ],
)
async def test_hostile_files_are_refused_in_words(site: Site, text: str) -> None:
    answer = await site.ask("olga", "POST", "projects/import", {"text": text, "name": "copy"})
    assert answer.status_code == 400, answer.text
    assert await site.parts.store.table(ProjectTable).all() == []


async def test_members_are_users_that_exist(site: Site) -> None:
    await site.approved()
    at = "projects/proteins/members"
    for name, words in (("nobody1", "no user 'nobody1'"), ("root", "service account")):
        body = {"people": ["eve", name], "role": "member"}
        assert words in await site.refused(400, "olga", "POST", at, body)
    assert "eve" not in await site.projects.members.members_of("proteins")
    for people in ([], ["a b"], ["a/b"], ["x" * 256], "eve"):
        assert (await site.ask("olga", "POST", at, {"people": people})).status_code == 400
    body = {"people": ["eve"], "role": "student"}
    assert (await site.ask("olga", "POST", at, body)).status_code == 400
    site.directory.away = True
    body = {"people": ["eve"], "role": "member"}
    assert (await site.ask("olga", "POST", at, body)).status_code == 503


# -- people leave ----------------------------------------------------------------------------------


async def test_who_is_removed_is_warned_and_then_stopped(site: Site) -> None:
    await site.approved()
    leaving, now = site.projects.leaving, time.time()
    records = {who: await site.session(who) for who in ("olga", "mike", "rita")}
    site.hub.running = {(who, "work"): "ready" for who in records}
    await leaving.look_at_projects(now)
    assert not any(leaving.messages(record) for record in records.values())
    await site.done("olga", "DELETE", "projects/proteins/members?person=mike")
    await leaving.look_at_projects(now + 20)
    (message,) = leaving.messages(records["mike"])
    assert "no longer a member of the project 'Proteins'" in message.text and message.id < 0
    assert site.hub.stopped == []
    await leaving.look_at_projects(now + 79)
    assert site.hub.stopped == []
    await leaving.look_at_projects(now + 80)
    await leaving.look_at_projects(now + 100)  # it is still stopping
    (stop,) = site.hub.stopped
    assert stop[:2] == ("mike", "work") and "no longer a member" in str(stop[2])
    assert ("the portal", "stop-project-session", "project proteins", "done") in await site.audit()
    assert leaving.interval + leaving.grace < 300


async def test_a_member_who_becomes_a_reader_loses_the_writable_folder(site: Site) -> None:
    await site.approved()
    now = time.time()
    before = await site.session("mike", submitted_at=now - 100)
    await site.session("rita", submitted_at=now - 100)  # read-only from the start
    members = site.parts.store.table(ProjectTable).members
    (rita,) = [m for m in await members.of_space("proteins") if m.person == "rita"]
    await members.put([rita.model_copy(update={"added_at": now - 200})])
    site.hub.running = {("mike", "work"): "ready", ("rita", "work"): "ready"}
    body = {"people": ["mike"], "role": "reader"}
    await site.done("olga", "POST", "projects/proteins/members", body)
    await site.projects.leaving.look_at_projects(time.time())
    assert "now a reader" in site.projects.leaving.messages(before)[0].text
    await site.projects.leaving.look_at_projects(time.time() + 60)
    assert [stop[0] for stop in site.hub.stopped] == ["mike"]


async def test_a_project_is_archived_at_its_end_and_its_sessions_stop(site: Site) -> None:
    await site.approved(ends="2090-01-01")
    await site.session("mike", state="pending")
    site.hub.running = {("mike", "work"): "pending"}
    after = 3792000000.0  # 2090-03-01
    await site.projects.leaving.look_at_projects(after)
    stored = await site.parts.store.table(ProjectTable).get("proteins")
    assert stored.state is SpaceState.ARCHIVED
    assert [stop[0] for stop in site.hub.stopped] == ["mike"]  # nothing to save yet


async def test_the_group_of_the_directory_is_copied(site: Site) -> None:
    site.directory.groups["lab-group"] = ("ned", "rita", "root")
    leaving, now = site.projects.leaving, time.time()
    await site.done(
        "eve",
        "POST",
        "projects",
        {"project": PROTEINS | {"name": "spy", "roster_group": "lab-group"}},
    )
    await leaving.look_at_projects(now)
    assert list(await site.projects.members.members_of("spy")) == ["eve"]  # not approved
    await site.approved(roster_group="lab-group")
    await leaving.look_at_projects(now)
    roles = {
        m.person: str(m.role) for m in (await site.projects.members.members_of("proteins")).values()
    }
    assert roles == {"olga": "owner", "mike": "member", "rita": "reader", "ned": "member"}
    message = await site.refused(409, "olga", "DELETE", "projects/proteins/members?person=ned")
    assert "group 'lab-group'" in message
    site.directory.away = True
    await leaving.look_at_projects(now + 200)
    assert "ned" in await site.projects.members.members_of("proteins")
    assert (await site.done("olga", "GET", "projects/proteins"))["group_error"]
    site.directory.away = False
    site.directory.groups["lab-group"] = ()
    await leaving.look_at_projects(now + 400)
    assert sorted(await site.projects.members.members_of("proteins")) == ["mike", "olga", "rita"]


async def test_admins_are_told_of_a_project_without_an_owner(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.approved()

    async def may_log_in(user: str) -> bool:
        return user != "olga"

    monkeypatch.setattr(site.hub, "may_log_in", may_log_in, raising=False)
    await site.projects.leaving.look_at_projects(time.time())
    entry = ("the portal", "miss-project-owner", "project proteins", "done")
    assert (await site.audit()).count(entry) == 1
    detail = await site.done("grace", "GET", "projects/proteins")
    assert "No owner may sign in" in detail["problem"]
    (part,) = site.projects.home_parts(ADMIN, NO_VISIT)
    (task,) = (await part.load() or {})["tasks"]
    assert (task["title"], task["words"]) == ("Proteins", detail["problem"])
    assert list(site.projects.home_parts(Person(name="olga"), NO_VISIT)) == []
    await site.projects.leaving.look_at_projects(time.time() + 1000)
    assert (await site.audit()).count(entry) == 1

    async def away(user: str) -> bool:
        raise HubUnavailable("away")

    monkeypatch.setattr(site.hub, "may_log_in", away, raising=False)
    with pytest.raises(HubUnavailable):
        await site.projects.leaving.look_at_projects(time.time() + 2000)
    assert site.projects.leaving.problem("proteins")  # what was known holds


# -- who may do what -------------------------------------------------------------------------------

_MEMBERS = {"people": ["ned"], "role": "member"}
_OK = frozenset(PEOPLE)
_OWN = frozenset({"olga", "grace"})
# Method, address, body and those who may, of olga (owner), mike (member), rita (reader), eve
# (outsider) and grace (admin). "N" is the number of the project's state.
MATRIX: list[tuple[str, str, Any, frozenset[str]]] = [
    ("GET", "projects", None, _OK),
    ("POST", "projects", {"project": PROTEINS | {"name": "other"}}, _OK),
    ("POST", "projects/import", {"text": "project: {name: other, title: O}"}, _OK),
    ("GET", "projects/proteins", None, _OK - {"eve"}),
    ("PUT", "projects/proteins", {"project": PROTEINS, "number": "N"}, _OWN),
    ("GET", "projects/proteins/export", None, _OWN),
    ("POST", "projects/proteins/members", _MEMBERS, _OWN),
    ("DELETE", "projects/proteins/members?person=mike", None, _OWN),
    ("POST", "projects/proteins/leave", None, frozenset({"mike", "rita"})),  # olga: the last owner
    ("POST", "projects/proteins/hand-over", {"person": "ned", "giver": "olga"}, _OWN),
    ("POST", "projects/proteins/archive", {"number": "N"}, _OWN),
    ("POST", "projects/proteins/restore", {"number": "N"}, frozenset()),  # not archived
    ("POST", "projects/proteins/approve", {"number": "N"}, frozenset()),  # approved already
    ("POST", "projects/proteins/refuse", {"number": "N", "answer": "No."}, frozenset()),
    ("GET", "projects/nothing", None, frozenset()),
]


async def test_roles_and_routes(tmp_path: Path) -> None:
    deviations, asked = [], set()
    for index, (method, path, body, may) in enumerate(MATRIX):
        for who in PEOPLE:
            place = tmp_path / f"{index}-{who}"
            place.mkdir()
            async with running(place) as site:
                number = (await site.approved())["number"]
                sent = body
                if isinstance(body, dict) and body.get("number") == "N":
                    sent = body | {"number": number}
                answer = await site.ask(who, method, path, sent)
                if (answer.status_code < 300) != (who in may):
                    deviations.append((who, method, path, answer.status_code))
                if who == "eve" and who not in may:
                    assert answer.status_code == 403, (path, answer.text)
                asked.add((method, path.partition("?")[0]))
    assert deviations == []
    from portal.projects.endpoints import ENDPOINTS

    routes = {
        (method.upper(), kind.path.replace("{project}", "proteins"))
        for kind in ENDPOINTS
        for method in kind.operations
    }
    assert routes <= asked
