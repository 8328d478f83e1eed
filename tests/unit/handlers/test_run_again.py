"""Runs once more over HTTP: failed points, exact repetitions, and runs that are shared."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from clusters import snapshot
from fake_hub import FakeHub
from session_endpoints import of_server, parts_on, person, said, served
from session_records import recorded
from stored_courses import a_course, stored

from portal.assembly import Services
from portal.catalog.availability import Offer
from portal.errors import NotAllowed
from portal.models.catalog.catalog import EnvironmentVersion, Origin
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.session import SessionState
from portal.store import Store
from portal.work.run.endpoints import again, reports, runs, shares, start
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "run-5e2f3c1a0b7d4c8e9a6f"
KEY = ("ada", ID)
DIGEST = f"sha256:{'d' * 64}"
NO_SUCH = (404, "You have no such run.")
TOKENS = {
    "session": of_server("ada"),
    "run": of_server("ada", SERVER),
    "course": of_server("barbara", "course-deep"),
    "ada": person("ada"),
    "barbara": person("barbara"),
    "carol": person("carol"),
}
OLD = Environment(name="torch", title="Torch", kind="venv", path="/opt/torch-1")
NEW = OLD.model_copy(update={"path": "/opt/torch-2"})


class Catalog:
    """The catalog: one environment, of which there may be another version now."""

    def __init__(self) -> None:
        self.environments = {"torch": OLD}
        self.hidden: set[str] = set()  # users who do not see it
        self.offering = self

    async def load(self) -> None:
        pass

    @property
    def offers(self) -> dict[str, Offer]:
        return {name: Offer(environment) for name, environment in self.environments.items()}

    async def offer_for(self, environment: Environment) -> Offer:
        return Offer(environment)

    def sees(self, person: Any, environment: Environment) -> bool:
        return person.name not in self.hidden


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, catalog: Catalog) -> None:
        self.client, self.parts, self.catalog = client, parts, catalog
        self.hub: Any = parts.hub

    async def ask(self, method: str, path: str, token: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        return await self.client.request(method, path, content=content, headers=headers)

    async def get(self, path: str, token: str = "ada") -> Any:
        answer = await self.ask("GET", path, token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def version(self, environment: Environment, published_at: float) -> EnvironmentVersion:
        """Add a published version."""
        return await self.parts.store.versions.add_version(
            environment,
            author="grace",
            at=published_at,
            origin=Origin.FILE,
            state=EnvironmentState.READY,
            published_at=published_at,
        )

    async def audit(self) -> list[tuple[str, str, str]]:
        entries, _ = await self.parts.store.audit.find()
        return [(entry.actor, entry.action, str(entry.outcome)) for entry in entries]


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    catalog, record = Catalog(), recorded(
        id="1", user="ada", job_id="11", state=SessionState.RUNNING, submitted_at=time.time(),
        environment="torch", options={"environment": "torch"},
    )  # fmt: skip
    view = SimpleNamespace(sessions={"11": record}, jobs={}, snapshot=snapshot())

    async def refreshed() -> None:
        pass

    parts = parts_on(
        store,
        dashboard=SimpleNamespace(view=view, refreshed=refreshed),
        hub=FakeHub(strangers={"nobody"}),
        catalog=catalog,
    )
    await store.sessions.save(record)
    kinds = [each for module in (again, reports, runs, shares, start) for each in module.ENDPOINTS]
    async with served(kinds, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts, catalog)


@pytest.fixture
async def ended(site: Site) -> Site:
    """A run of ada's that has ended: of four points, 1 and 3 failed."""
    run = Run(
        id=ID,
        name="rates",
        source="work/train.ipynb",
        folder="/home/ada/projects/runs/rates",
        code_digest=DIGEST,
        points=4,
        user="ada",
        server=SERVER,
        environment="torch",
        resources={"gpus": 1, "time": "1:00:00", "account": "physics"},
        created_at=5.0,
    )
    store = site.parts.store
    await store.table(RunTable).add_run(run)
    states = ("succeeded", "failed", "succeeded", "failed")
    points = [RunPoint(number=n, state=PointState(s), attempt=1) for n, s in enumerate(states)]
    await store.table(RunPointTable).save([(KEY, point) for point in points])
    await store.table(RunTable).end("ada", ID, 9.0)
    return site


# -- what failed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["ada", "session"])
async def test_the_failed_points_run_again(ended: Site, token: str) -> None:
    answer = await ended.ask("POST", f"runs/{ID}/again", token, {"time": "4:00:00"})
    assert (answer.status_code, answer.json()) == (202, {"id": ID, "server": SERVER})
    ((user, server, options),) = ended.hub.begun
    assert (user, server, options["time"], options["gpus"]) == ("ada", SERVER, "4:00:00", 1)
    assert (options["run"]["only"], options["run"]["attempt"]) == ("1,3", 1)
    item = await ended.get(f"runs/{ID}")
    assert (item["ended_at"], item["message"], item["mine"]) == (None, "", True)
    assert item["counts"]["waiting"] == 2 and item["counts"]["succeeded"] == 2
    assert ("ada", "run-again", "done") in await ended.audit()
    # Tasks of the job before are late; those of the new one count.
    for attempt, status in ((1, 409), (2, 200)):
        body = {"point": 1, "state": "succeeded", "attempt": attempt}
        assert (await ended.ask("POST", "session/points", "run", body)).status_code == status
    answer = await ended.ask("POST", f"runs/{ID}/again", token, {})
    assert (answer.status_code, said(answer)) == (409, "This run has not ended.")


async def test_the_numbers_of_its_ending_are_of_the_points_that_ran_again(ended: Site) -> None:
    assert (await ended.ask("POST", f"runs/{ID}/again", "ada", {})).status_code == 202
    words = "The run has finished: 2 points completed."
    record = recorded(
        id="2", user="ada", server=SERVER, job_id="12", state=SessionState.ENDED, ended_at=9.0,
        submitted_at=8.0, environment="torch", options={"run": {"id": ID, "attempt": 1}},
        ending_code="finished", ending_message=words,
    )  # fmt: skip
    await ended.parts.store.sessions.save(record)
    await ended.parts.store.table(RunTable).end("ada", ID, time.time())
    assert (await ended.get(f"runs/{ID}"))["message"] == f"Failed points ran again. {words}"


async def test_a_refusal_is_told_and_changes_nothing(ended: Site) -> None:
    before = await ended.get(f"runs/{ID}/points")
    ended.hub.refusal = NotAllowed("The time limit of this partition is 1:00:00.")
    answer = await ended.ask("POST", f"runs/{ID}/again", "ada", {"time": "99:00:00"})
    assert (answer.status_code, said(answer)) == (403, ended.hub.refusal.message)
    assert await ended.get(f"runs/{ID}/points") == before
    assert (await ended.get(f"runs/{ID}"))["ended_at"] == 9.0
    assert ("ada", "run-again", "refused") in await ended.audit()


async def test_a_wrong_time_is_told_in_words(ended: Site) -> None:
    answer = await ended.ask("POST", f"runs/{ID}/again", "ada", {"time": "soon"})
    assert answer.status_code == 400
    assert "'soon' is not" in said(answer) and "[0-9]" not in said(answer), said(answer)


@pytest.mark.parametrize("body", [{"time": "soon"}, {"memory": "$(id)"}, {"only": "0"}, [], 7])
async def test_hostile_changes_are_refused(ended: Site, body: Any) -> None:
    answer = await ended.ask("POST", f"runs/{ID}/again", "ada", body)
    assert answer.status_code == 400 and ended.hub.begun == []


# -- exactly ---------------------------------------------------------------------------------------


async def test_a_run_is_repeated(ended: Site) -> None:
    assert await ended.get(f"runs/{ID}/repetitions") == {
        "name": "rates-2", "author": "ada", "environment": "torch", "version": None, "drift": [],
    }  # fmt: skip
    answer = await ended.ask("POST", f"runs/{ID}/repetitions", "session")
    assert answer.status_code == 202, answer.text
    ((_, server, options),) = ended.hub.begun
    started = answer.json()
    assert started == {"id": started["id"], "server": server, "name": "rates-2", "drift": []}
    assert options["account"] == "physics" and "only" not in options["run"]
    assert options["run"]["folder"] == "/home/ada/projects/runs/rates-2"
    assert options["run"]["origin"] == {
        "id": ID, "user": "ada", "folder": "/home/ada/projects/runs/rates",
    }  # fmt: skip
    item = await ended.get(f"runs/{started['id']}")
    assert (item["state"], item["origin"]["id"], item["drift"]) == ("waiting", ID, [])
    assert (await ended.get(f"runs/{ID}/repetitions"))["name"] == "rates-3"


async def test_what_drifted_is_shown(ended: Site) -> None:
    answer = await ended.ask("POST", f"runs/{ID}/repetitions", "ada")
    new = answer.json()["id"]
    server = ended.hub.begun[0][1]
    TOKENS["new"] = of_server("ada", server)
    drift = ["numpy is 2.1 instead of 2.0."]
    for point, more in ((0, ["The node is gpu02 instead of gpu01."]), (1, [])):
        body = {"point": point, "state": "succeeded", "drift": [*drift, *more]}
        answer = await ended.ask("POST", "session/points", "new", body)
        assert answer.status_code == 200, answer.text
    assert (await ended.get(f"runs/{new}"))["drift"] == [
        {"text": drift[0], "points": 2},
        {"text": "The node is gpu02 instead of gpu01.", "points": 1},
    ]
    points = (await ended.get(f"runs/{new}/points"))["items"]
    node = "The node is gpu02 instead of gpu01."
    assert [point["drift"] for point in points[:3]] == [[*drift, node], drift, []]
    for hostile in ([""], ["a\nb"], ["a" * 301], ["a"] * 31, "numpy"):
        body = {"point": 2, "state": "running", "drift": hostile}
        answer = await ended.ask("POST", "session/points", "new", body)
        assert answer.status_code == 400, hostile


async def test_the_environment_s_version_is_kept(site: Site) -> None:
    await site.version(OLD, 1.0)
    body = {"id": ID, "name": "rates", "source": "train.py", "folder": "/home/ada/runs/rates",
            "points": 1}  # fmt: skip
    answer = await site.ask("POST", "session/runs", "session", body)
    assert answer.status_code == 202, answer.text
    assert site.hub.begun[-1][2]["run"]["version"] == 1
    await site.version(NEW, 2.0)
    site.catalog.environments = {"torch": NEW}
    plan = await site.get(f"runs/{ID}/repetitions")
    assert (plan["version"], plan["drift"]) == (1, []), "it can still be used"
    await site.parts.store.versions.change("torch", 1, state=EnvironmentState.WITHDRAWN)
    plan = await site.get(f"runs/{ID}/repetitions")
    words = "Version 1 of 'Torch' can no longer be used. It was withdrawn. It runs in version 2."
    assert (plan["version"], plan["drift"]) == (2, [words])
    await site.ask("POST", f"runs/{ID}/repetitions", "ada")
    assert site.hub.begun[-1][2]["run"]["version"] == 2


async def test_a_session_of_an_earlier_version_has_runs_of_that(site: Site) -> None:
    await site.version(OLD, 1.0)
    await site.version(NEW, time.time() + 60)  # after the session was submitted
    site.catalog.environments = {"torch": NEW}
    body = {"id": ID, "name": "rates", "source": "train.py", "folder": "/home/ada/runs/rates",
            "points": 1}  # fmt: skip
    answer = await site.ask("POST", "session/runs", "session", body)
    assert answer.status_code == 202, answer.text
    assert site.hub.begun[-1][2]["run"]["version"] == 1


@pytest.mark.parametrize("name", ["only", "attempt", "origin", "version", "digest", "course"])
async def test_a_session_does_not_set_what_is_the_portal_s(site: Site, name: str) -> None:
    values = {"only": "0", "attempt": 1, "version": 1, "digest": "", "course": "deep",
              "origin": {"id": ID, "user": "ada", "folder": "/home/ada/runs/x"}}  # fmt: skip
    body = {"id": ID, "name": "rates", "source": "train.py", "folder": "/home/ada/runs/rates",
            "points": 1, name: values[name]}  # fmt: skip
    answer = await site.ask("POST", "session/runs", "session", body)
    assert answer.status_code == 400 and f"'{name}'" in said(answer) and site.hub.begun == []


# -- shared ----------------------------------------------------------------------------------------


async def test_a_colleague_sees_it_and_repeats_it(ended: Site) -> None:
    answer = await ended.ask("POST", f"runs/{ID}/shares", "ada", {"user": "barbara"})
    assert (answer.status_code, said(answer)) == (200, "The run is shared with barbara.")
    assert await ended.get(f"runs/{ID}/shares") == {"users": ["barbara"]}
    shared = await ended.get("shared-runs", "barbara")
    assert (shared["total"], shared["items"][0]["user"]) == (1, "ada")
    assert shared["items"][0]["counts"]["failed"] == 2
    item = await ended.get(f"runs/{ID}?owner=ada", "barbara")
    assert (item["mine"], item["name"]) == (False, "rates")
    assert not {"account", "qos", "reservation"} & item["resources"].keys()
    assert (item["after"], item["reason"], item["notify"]) == ("", "", [])
    assert (await ended.get(f"runs/{ID}/points?owner=ada", "barbara"))["total"] == 4
    assert (await ended.get("runs", "barbara"))["total"] == 0
    # She may look at it and repeat it; all else is the owner's.
    refused = [("DELETE", "", None), ("POST", "/again", {}), ("GET", "/shares", None)]
    for method, path, body in (*refused, ("POST", "/shares", {"user": "carol"})):
        answer = await ended.ask(method, f"runs/{ID}{path}", "barbara", body)
        assert (answer.status_code, said(answer)) == NO_SUCH, path
    answer = await ended.ask("POST", f"runs/{ID}/repetitions?owner=ada", "barbara")
    assert answer.status_code == 202, answer.text
    ((user, _, options),) = ended.hub.begun
    assert user == "barbara" and "account" not in options
    assert options["run"]["folder"] == "~/runs/rates-2"
    assert options["run"]["code_digest"] == DIGEST
    assert options["run"]["origin"]["user"] == "ada"
    assert ("barbara", "repeat-run", "done") in await ended.audit()
    answer = await ended.ask("DELETE", f"runs/{ID}/shares/barbara", "ada")
    assert answer.status_code == 200
    assert (await ended.get("shared-runs", "barbara"))["total"] == 0
    answer = await ended.ask("GET", f"runs/{ID}?owner=ada", "barbara")
    assert (answer.status_code, said(answer)) == NO_SUCH
    assert (await ended.get("runs", "barbara"))["total"] == 1, "the repetition is hers"
    answer = await ended.ask("DELETE", f"runs/{ID}/shares/barbara", "ada")
    assert answer.status_code == 404
    assert [line[1] for line in await ended.audit()].count("share-run") == 1


@pytest.fixture
async def taught(ended: Site) -> Site:
    """The same of a course, whose environment has another image since then."""
    course = a_course(environment="torch", runs=True)
    pinned = OLD.model_copy(update={"digest": f"sha256:{'2' * 64}"})
    store = ended.parts.store
    await store.courses.add_space(stored(course, pinned=pinned))
    run = await store.table(RunTable).get(*KEY)
    assert run is not None
    await store.table(RunTable).remove(*KEY)
    old = {"course": "deep", "digest": f"sha256:{'1' * 64}", "resources": {"gpus": 1}}
    await store.table(RunTable).add_run(run.model_copy(update=old))
    return ended


async def test_a_run_of_a_course_stays_one(taught: Site) -> None:
    taught.catalog.hidden.add("ada")  # only the course gives her the environment
    answer = await taught.ask("POST", f"runs/{ID}/again", "ada", {})
    assert answer.status_code == 202, answer.text
    await taught.parts.store.table(RunTable).end("ada", ID, 9.0)
    plan = await taught.get(f"runs/{ID}/repetitions")
    assert plan["drift"] == ["The image is sha256:222222222222; it was sha256:111111111111."]
    answer = await taught.ask("POST", f"runs/{ID}/repetitions", "ada")
    assert answer.status_code == 202, answer.text
    assert [options["run"]["course"] for *_, options in taught.hub.begun] == ["deep", "deep"]
    assert "account" not in taught.hub.begun[1][2]
    # The Hub alone knows whether the course is on, and whether she is still in it.
    taught.hub.refusal = NotAllowed("There is no course 'deep' that you can access.")
    for path in ("again", "repetitions"):
        answer = await taught.ask("POST", f"runs/{ID}/{path}", "ada", {})
        assert (answer.status_code, said(answer)) == (403, taught.hub.refusal.message)


async def test_a_run_of_a_course_is_repeated_by_its_user_alone(taught: Site) -> None:
    await taught.ask("POST", f"runs/{ID}/shares", "ada", {"user": "barbara"})
    assert (await taught.get(f"runs/{ID}?owner=ada", "barbara"))["course"] == "deep"
    answer = await taught.ask("POST", f"runs/{ID}/repetitions?owner=ada", "barbara")
    words = "Only ada can repeat this run: its files are in ada's folder of the course 'deep'."
    assert (answer.status_code, said(answer)) == (403, words)
    answer = await taught.ask("GET", "shared-runs", "course")
    assert answer.status_code == 403, "others are let into that session"
    assert taught.hub.begun == []


async def test_a_stranger_finds_nothing(ended: Site) -> None:
    await ended.ask("POST", f"runs/{ID}/shares", "ada", {"user": "barbara"})
    for method, path, body in (("GET", "", None), ("GET", "/points", None), ("DELETE", "", None),
                               ("POST", "/again", {}), ("GET", "/repetitions", None),
                               ("POST", "/repetitions", None), ("GET", "/shares", None),
                               ("POST", "/shares", {"user": "carol"}),
                               ("DELETE", "/shares/barbara", None)):  # fmt: skip
        answer = await ended.ask(method, f"runs/{ID}{path}", "carol", body)
        assert (answer.status_code, said(answer)) == NO_SUCH, (method, path)
        if path in ("", "/points", "/repetitions") and method != "DELETE":
            answer = await ended.ask(method, f"runs/{ID}{path}?owner=ada", "carol", body)
            assert (answer.status_code, said(answer)) == NO_SUCH, (method, path)
    assert (await ended.get("shared-runs", "carol"))["total"] == 0
    assert ended.hub.begun == [] and await ended.get(f"runs/{ID}/shares") == {"users": ["barbara"]}


async def test_a_colleague_without_the_environment(ended: Site) -> None:
    await ended.ask("POST", f"runs/{ID}/shares", "ada", {"user": "barbara"})
    ended.catalog.hidden.add("barbara")
    for method in ("GET", "POST"):
        answer = await ended.ask(method, f"runs/{ID}/repetitions?owner=ada", "barbara")
        assert answer.status_code == 403
        assert said(answer).startswith("The environment 'torch' of this run is not available")
    assert ended.hub.begun == []


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("nobody", "The portal does not know the user 'nobody'."),
        ("ada", "This run is already yours."),
        ("*", "'user'"),
        ("", "'user'"),
        ("a/b", "'user'"),
        ("a\nb", "'user'"),
    ],
)
async def test_whom_a_run_is_not_shared_with(ended: Site, user: str, words: str) -> None:
    answer = await ended.ask("POST", f"runs/{ID}/shares", "ada", {"user": user})
    assert answer.status_code == 400 and words in said(answer), said(answer)
    assert await ended.get(f"runs/{ID}/shares") == {"users": []}


async def test_programs_share_nothing(ended: Site) -> None:
    answer = await ended.ask("POST", f"runs/{ID}/shares", "session", {"user": "barbara"})
    assert answer.status_code == 403
