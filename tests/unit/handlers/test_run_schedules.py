"""Schedules of runs in the API: made, listed, paused, deleted, by their user and by sessions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import of_server, parts_on, person, said, served

from portal.assembly import Services
from portal.models.session.run import Run
from portal.store import Store
from portal.work.run.endpoints import runs, schedules
from portal.work.run.parts import RunParts
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.schedules import RunScheduleTable

FIRST, SECOND, THIRD, FOURTH = (digit * 8 for digit in "1235")
TOKENS = {
    "session": of_server("ada"),
    "course": of_server("ada", "course-deep"),
    "run": of_server("ada", "run-5e2f3c1a"),
    "ada": person("ada"),
    "barbara": person("barbara"),
}
PATH = "runs/schedules"


def a_run(id_: str, name: str, after: str = "") -> Run:
    return Run(
        id=id_,
        name=name,
        source="train.py",
        folder=f"/home/ada/runs/{name}",
        points=3,
        user="ada",
        server=f"run-{id_}",
        environment="lab",
        created_at=1.0,
        after=after,
    )


async def _refreshed() -> None:
    pass


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts = client, parts

    async def ask(self, method: str, path: str, token: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {token}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def make(self, token: str = "ada", **changes: Any) -> httpx.Response:
        return await self.ask("POST", PATH, token, {"run": FIRST, "at": "02:00", **changes})


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    for run in (a_run(FIRST, "first"), a_run(SECOND, "second", FIRST)):
        await store.table(RunTable).add_run(run)
    await store.table(RunTable).add_run(a_run(THIRD, "third", "44444444"))
    waiting = a_run(FOURTH, "fourth").model_copy(update={"folder": "~/runs/fourth"})
    await store.table(RunTable).add_run(waiting)
    dashboard = SimpleNamespace(view=None, refreshed=_refreshed)
    parts = parts_on(store, dashboard=dashboard)
    kinds = (*schedules.ENDPOINTS, *runs.ENDPOINTS)
    async with served(kinds, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts)


async def test_a_course_s_session_schedules_the_runs_of_the_course_alone(site: Site) -> None:
    own = a_run("6" * 8, "own").model_copy(update={"course": "deep"})
    mixed = a_run("7" * 8, "mixed", FIRST).model_copy(update={"course": "deep"})
    for run in (own, mixed):
        await site.parts.store.table(RunTable).add_run(run)
    assert (await site.make("course")).status_code == 404
    assert (await site.make("course", run=mixed.id)).status_code == 409
    personal = (await site.make()).json()["id"]
    made = await site.make("course", run=own.id)
    assert made.status_code == 201, made.text
    assert (await site.ask("GET", PATH, "course")).json()["items"] == [made.json()]
    for method, body in (("PUT", {"paused": True}), ("DELETE", None)):
        answer = await site.ask(method, f"{PATH}/{personal}", "course", body)
        assert (answer.status_code, said(answer)) == (404, "You have no such schedule.")
    answer = await site.ask("DELETE", f"{PATH}/{made.json()['id']}", "course")
    assert answer.status_code == 200
    items = (await site.ask("GET", PATH, "ada")).json()["items"]
    assert [item["id"] for item in items] == [personal]


@pytest.mark.parametrize("token", ["ada", "session"])
async def test_one_from_its_beginning_to_its_end(site: Site, token: str) -> None:
    answer = await site.make(token, run=SECOND, days=[4, 0], timezone="Europe/Berlin")
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["name"] == "second" and made["days"] == [0, 4]
    assert [run["name"] for run in made["runs"]] == ["first", "second"], "the whole chain"
    assert made["next_at"] > time.time() and made["last_at"] is None
    (kept,) = await site.parts.store.table(RunScheduleTable).of_user("ada")
    assert [run.id for run in kept.runs] == [FIRST, SECOND] and kept.user == "ada"
    listed = (await site.ask("GET", PATH, token)).json()
    assert listed == {"items": [made], "most": 20}
    path = f"{PATH}/{made['id']}"
    paused = (await site.ask("PUT", path, token, {"paused": True})).json()
    assert paused["paused"] and paused["next_at"] is None
    resumed = (await site.ask("PUT", path, token, {"paused": False})).json()
    assert resumed == made
    assert (await site.ask("DELETE", path, token)).status_code == 200
    assert (await site.ask("DELETE", path, token)).status_code == 404
    assert (await site.ask("GET", PATH, token)).json()["items"] == []
    entries, _ = await site.parts.store.audit.find()
    assert {entry.action for entry in entries} == {
        "schedule-run",
        "pause-schedule",
        "resume-schedule",
        "delete-schedule",
    }


async def test_others_see_and_change_nothing(site: Site) -> None:
    made = (await site.make()).json()
    assert (await site.ask("GET", PATH, "barbara")).json()["items"] == []
    for method, body in (("PUT", {"paused": True}), ("DELETE", None)):
        answer = await site.ask(method, f"{PATH}/{made['id']}", "barbara", body)
        assert answer.status_code == 404
    assert (await site.make("barbara")).status_code == 404, "another user's run"
    assert (await site.make("run")).status_code == 403
    assert len(await site.parts.store.table(RunScheduleTable).of_user("ada")) == 1


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"at": "25:00"}, 400, "'at'"),
        ({"at": "02:00; id"}, 400, "'at'"),
        ({"days": []}, 400, "'days'"),
        ({"days": [7]}, 400, "'days.0'"),
        ({"timezone": "../etc/passwd"}, 400, "is not a time zone; an example is 'Europe/Berlin'"),
        ({"until": "2026-02-30"}, 400, "'until'"),
        ({"until": "2020-01-01"}, 400, "would not start a run by 2020-01-01. Choose a later"),
        ({"run": "../1"}, 400, "'run'"),
        ({"run": "ffffffff"}, 404, "You have no such run."),
        ({"run": THIRD}, 409, "The run before 'third' is no longer kept"),
        ({"run": FOURTH}, 409, "This run has not started yet."),
        ({"notify": ["end"]}, 409, "This site sends no mail."),
        ({"user": "barbara"}, 400, "'user' is not a known field"),
    ],
    ids=str,
)
async def test_what_is_refused(site: Site, change: Any, status: int, words: str) -> None:
    answer = await site.make(**change)
    assert answer.status_code == status and words in said(answer), answer.text
    assert await site.parts.store.table(RunScheduleTable).of_user("ada") == []


async def test_limits(site: Site) -> None:
    site.parts.parts_for(RunParts).limits.schedules = 1
    assert (await site.make()).status_code == 201
    answer = await site.make()
    assert answer.status_code == 403 and "the limit is 1" in said(answer)
    site.parts.parts_for(RunParts).limits.schedules = 0
    answer = await site.make()
    assert answer.status_code == 403 and "not offered on this site" in said(answer)


async def test_a_start_that_is_tried_again_says_so(site: Site) -> None:
    await site.make()
    table = site.parts.store.table(RunScheduleTable)
    (kept,) = await table.of_user("ada")
    at = 1_790_000_000.0
    await table.change(kept, starting_at=at, message="The Hub does not answer.")
    (item,) = (await site.ask("GET", PATH, "ada")).json()["items"]
    assert item["message"].startswith("The start at ") and item["message"].endswith(
        " is retried every few seconds. The Hub does not answer."
    )
