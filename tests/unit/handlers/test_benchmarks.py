"""Benchmarks in the API: everyone reads those of the environments that they may use; curators add
runs of their own, and remove any."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import catalog_of, parts_on, person, said, served

from portal.assembly import Services
from portal.errors import StoreUnavailable
from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.models.scope import ENVIRONMENTS_MANAGE
from portal.models.session.run import Run
from portal.store import Store
from portal.work.benchmarks import endpoints
from portal.work.benchmarks import specifications as module
from portal.work.benchmarks.results import BenchmarkResult
from portal.work.benchmarks.tables import BenchmarkRun, BenchmarkRunTable
from portal.work.run.tables.runs import RunTable

TOKENS = {
    "ada": person("ada"),
    "grace": person("grace", ENVIRONMENTS_MANAGE),
    "hedy": person("hedy", ENVIRONMENTS_MANAGE),
}
GRACES, ADAS, COURSES = "1" * 8, "2" * 8, "3" * 8
RESULT = BenchmarkResult(
    user="grace", run=GRACES, benchmark="throughput", environment="open", version=2,
    gpu_type="v100-sxm2", gpus=2, nodes="gpu01", name="training", value=2000.0, unit="images/s",
    conditions="precision=fp16", peak="fp16", operations=2.454e10, simulated=False, at=5.0,
)  # fmt: skip


def a_run(id_: str, user: str, source: str = "work/throughput.py", **more: Any) -> Run:
    return Run(
        id=id_, name=f"run-{id_[0]}", source=source, folder=f"/home/{user}/runs/{id_}", points=1,
        user=user, server=f"run-{id_}", environment="open", created_at=1.0, **more,
    )  # fmt: skip


class Site:
    """The endpoints on loopback; ada and the others may use the environment "open" alone."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts = client, parts

    async def ask(
        self, token: str, path: str = "benchmarks", method: str = "GET", **more: Any
    ) -> httpx.Response:
        headers = {"Authorization": f"token {token}"}
        return await self.client.request(method, path, headers=headers, **more)

    async def have(self, *results: BenchmarkResult) -> None:
        """Have these results, of a run of grace's."""
        added = BenchmarkRun(
            user="grace", run=GRACES, name="run-1", environment="open", added_at=1.0
        )
        table = self.parts.store.table(BenchmarkRunTable)
        await table.add_run(added)
        await table.take(added, results, taken_at=6.0)


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    known = Environment.model_validate(
        {"name": "open", "title": "Open", "kind": "venv", "path": "/opt/open"}
    )
    catalog = catalog_of(known)

    def visible_to(person: Person) -> list[Environment]:
        return [known]

    catalog.visible_to = visible_to
    for run in (
        a_run(GRACES, "grace"),
        a_run(ADAS, "ada"),
        a_run(COURSES, "grace", course="deep"),
        a_run("4" * 8, "grace", "train.py"),
    ):
        await store.table(RunTable).add_run(run)
    parts = parts_on(store, catalog=catalog, dashboard=SimpleNamespace(view=None))
    async with served(endpoints.ENDPOINTS, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts)


async def test_results_are_those_of_environments_that_a_user_may_use(site: Site) -> None:
    hidden = RESULT.model_copy(update={"environment": "hidden"})
    older = RESULT.model_copy(update={"version": 1, "value": 1000.0})
    slow = RESULT.model_copy(update={"version": 3, "value": 1700.0, "before": 2000.0})
    played = RESULT.model_copy(update={"simulated": True})
    await site.have(RESULT, hidden, older, slow, played)
    answer = await site.ask("ada", params={"sort": "-value"})
    items = answer.json()["items"]
    assert [(row["version"], row["simulated"]) for row in items] == [
        (2, True), (2, False), (3, False), (1, False)
    ]  # fmt: skip
    assert {row["environment"] for row in items} == {"open"}
    simulated, real, fallen, _ = items
    assert simulated["share"] is None and real["share"] == pytest.approx(0.19632)
    assert (real["fall"], fallen["fall"]) == (0.0, pytest.approx(0.15))
    assert "grace" not in answer.text
    assert (await site.ask("ada", params={"environment": "hidden"})).json()["total"] == 0
    assert (await site.ask("ada", params={"sort": "user"})).status_code == 400


async def test_only_the_newest_of_the_same_is_shown(site: Site) -> None:
    await site.have(RESULT, RESULT.model_copy(update={"value": 1900.0, "at": 6.0}))
    assert [row["value"] for row in (await site.ask("ada")).json()["items"]] == [1900.0]


async def test_a_curator_adds_own_runs_of_shipped_scripts(site: Site) -> None:
    listed = (await site.ask("grace", "benchmarks/runs")).json()
    assert (listed["items"], [run["id"] for run in listed["own"]]) == ([], [GRACES])
    path = f"benchmarks/runs/{GRACES}"
    added = await site.ask("grace", path, "PUT", json={"renew": True})
    assert said(added) == "The results are shown once the run has ended."
    (run,) = (await site.ask("hedy", "benchmarks/runs")).json()["items"]
    assert (run["user"], run["run"], run["renew"]) == ("grace", GRACES, True)
    await site.ask("grace", path, "PUT", json={})
    assert not (await site.ask("grace", "benchmarks/runs")).json()["items"][0]["renew"]


async def test_runs_of_others_and_of_courses_cannot_be_added(site: Site) -> None:
    others = await site.ask("grace", f"benchmarks/runs/{ADAS}", "PUT", json={})
    assert others.status_code == 404
    course = await site.ask("grace", f"benchmarks/runs/{COURSES}", "PUT", json={})
    assert course.status_code == 409 and "belongs to a space" in said(course)


async def test_users_without_the_right_neither_add_nor_remove(site: Site) -> None:
    await site.have(RESULT)
    assert (await site.ask("ada", "benchmarks/runs")).status_code == 403
    added = await site.ask("ada", f"benchmarks/runs/{ADAS}", "PUT", json={})
    removed = await site.ask(
        "ada", f"benchmarks/runs/{GRACES}", "DELETE", params={"owner": "grace"}
    )
    assert (added.status_code, removed.status_code) == (403, 403)
    assert (await site.ask("ada")).json()["total"] == 1


async def test_any_curator_removes_a_run(site: Site) -> None:
    await site.have(RESULT)
    path = f"benchmarks/runs/{GRACES}"
    assert (await site.ask("hedy", path, "DELETE")).status_code == 404, "it is not hedy's"
    gone = await site.ask("hedy", path, "DELETE", params={"owner": "grace"})
    assert said(gone) == "The results were removed."
    assert (await site.ask("ada")).json()["total"] == 0


async def test_data_sheets_are_for_everyone(site: Site) -> None:
    items = (await site.ask("ada", "benchmarks/gpus")).json()["items"]
    assert {"NVIDIA T4", "AMD MI250"} <= {entry["title"] for entry in items}


SHEET = """[[gpu]]
title = "A"
names = ["v100"]
memory = 1
bandwidth = 1
watts = 1
source = "s"
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[gpu", "Expected ']]'"), ("[gpu]\ntitle = 1\n", "cannot be read"),
        ("", "KeyError: 'gpu'"), ("gpu = 5", "cannot be read"),
        (SHEET.replace("watts = 1", 'watts = "x"'), "watts: "),
        (SHEET.replace('"v100"', '" "'), "names.0: "), (SHEET + "devices = 0\n", "devices: "),
        (SHEET + "fp16 = nan\n", "fp16: "), (None, "No such file"),
    ],
)  # fmt: skip
async def test_a_broken_data_sheet_takes_nothing_but_the_shares(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, words: str
) -> None:
    await site.have(RESULT)
    if text is not None:
        (tmp_path / "gpus.toml").write_text(text)
    monkeypatch.setattr(module, "data_path", lambda name: tmp_path)
    module.specifications.cache_clear()
    try:
        (row,) = (await site.ask("ada")).json()["items"]
        assert (row["value"], row["share"]) == (2000.0, None)
        refused = await site.ask("ada", "benchmarks/gpus")
        assert refused.status_code == 500 and words in said(refused)
        assert "gpus.toml cannot be read" in said(refused) and "restore its copy" in said(refused)
        (tmp_path / "gpus.toml").write_text(SHEET)
        assert len((await site.ask("ada", "benchmarks/gpus")).json()["items"]) == 1
    finally:
        module.specifications.cache_clear()


async def test_a_database_that_is_away_is_a_sentence(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.have(RESULT)
    database = site.parts.store.database

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("The portal's database does not answer. Try again in a moment.")

    asked = [("ada", "benchmarks", "GET"), ("grace", "benchmarks/runs", "GET"),
             ("grace", f"benchmarks/runs/{GRACES}", "PUT"),
             ("grace", f"benchmarks/runs/{GRACES}", "DELETE")]  # fmt: skip
    with monkeypatch.context() as outage:
        outage.setattr(database, "run", away)
        for token, path, method in asked:
            more = {"json": {"renew": True}} if method == "PUT" else {}
            answer = await site.ask(token, path, method, **more)
            assert answer.status_code == 503 and "database does not answer" in said(answer)
    assert (await site.ask("ada")).json()["total"] == 1
