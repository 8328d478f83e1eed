"""Tables and plots of runs: CSV files, values of all points, comparisons, and deletion."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import of_server, parts_on, person, said, served

from portal.assembly import Services
from portal.models.session.run import PointState, Run, RunPoint
from portal.store import Store
from portal.work.run.endpoints import comparison, record, runs, values
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

ID, OTHER, THIRD = "5e2f3c1a", "6e2f3c1a", "7e2f3c1a"
TOKENS = {"session": of_server("ada"), "ada": person("ada"), "barbara": person("barbara")}
ENDPOINTS = [
    endpoint for module in (comparison, record, runs, values) for endpoint in module.ENDPOINTS
]


def a_run(id_: str, **more: Any) -> Run:
    about = {
        "name": f"rates-{id_[0]}",
        "source": "work/train.ipynb",
        "folder": f"/home/ada/projects/runs/rates-{id_[0]}",
        "points": 5,
        "user": "ada",
        "server": f"run-{id_}",
        "environment": "torch",
        "resources": {"gpus": 1, "memory": "8G"},
        "created_at": time.time(),
    }
    return Run(**{**about, "id": id_, **more})


def a_point(number: int, loss: float | None, **parameters: Any) -> RunPoint:
    return RunPoint(
        number=number,
        state=PointState.SUCCEEDED,
        attempt=1,
        metrics={} if loss is None else {"loss": loss},
        parameters=parameters,
        started_at=1.0e9,
        ended_at=1.0e9 + 2.5,
        message="=1+1;@x",
    )


class Site:
    """The endpoints on loopback, with three runs of ada's."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts = client, parts

    async def ask(self, method: str, path: str, token: str = "ada") -> httpx.Response:
        return await self.client.request(method, path, headers={"Authorization": f"token {token}"})

    async def get(self, path: str) -> Any:
        answer = await self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    await store.table(RunTable).add_run(a_run(ID))
    await store.table(RunTable).add_run(
        a_run(OTHER, environment="jax", resources={"gpus": 2}, ended_at=9.0)
    )
    await store.table(RunTable).add_run(a_run(THIRD, user="barbara"))
    key = ("ada", ID)
    await store.table(RunPointTable).save(
        [
            (key, a_point(0, 0.5, lr=0.1, kind="=cmd()")),
            (key, a_point(1, 0.25, lr=-0.01, kind="b")),
            (key, a_point(3, None, lr=True)),
            (("ada", OTHER), a_point(0, 0.125, lr=0.1, kind="b")),
        ]
    )
    await store.table(RunCurveTable).save([(("ada", OTHER), 0, 1, {"loss": [(0, 1.0)]})])
    parts = parts_on(store, dashboard=SimpleNamespace(view=None))
    async with served(ENDPOINTS, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts)


async def test_the_table_is_a_file(site: Site) -> None:
    answer = await site.ask("GET", f"runs/{ID}/points.csv")
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="rates-5-points.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 5 and rows[2]["state"] == "waiting"
    first = rows[0]
    assert list(first)[:5] == [
        "number",
        "state",
        "parameters.kind",
        "parameters.lr",
        "metrics.loss",
    ]
    assert (first["parameters.lr"], first["metrics.loss"], first["seconds"]) == (
        "0.1",
        "0.5",
        "2.5",
    )
    assert first["parameters.kind"] == "'=cmd()", "no formula"
    assert first["message"] == "'=1+1;'@x"
    assert first["started_at"] == "2001-09-09T01:46:40+00:00"
    assert rows[1]["parameters.lr"] == "-0.01" and rows[3]["parameters.lr"] == "yes"
    answer = await site.ask("GET", f"runs/{ID}/points.csv?state=succeeded&sort=metric&metric=loss")
    assert [row["number"] for row in csv.DictReader(io.StringIO(answer.text))] == ["1", "0", "3"]
    assert (await site.ask("GET", f"runs/{ID}/points.csv", "barbara")).status_code == 404


async def test_the_points_of_all_lists_are_filtered_by_value(site: Site) -> None:
    where = "where=lr%3C1%20loss%3C0.4"
    page = await site.get(f"runs/{ID}/points?{where}")
    assert ([point["number"] for point in page["items"]], page["total"]) == ([1], 1)
    assert (await site.get(f"runs/{ID}/values?{where}"))["total"] == 1
    answer = await site.ask("GET", f"runs/{ID}/points.csv?{where}")
    assert [row["number"] for row in csv.DictReader(io.StringIO(answer.text))] == ["1"]
    refused = await site.ask("GET", f"runs/{ID}/points?where=lr")
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "where")


async def test_names_of_columns_are_no_formulas(site: Site) -> None:
    point = a_point(0, None, **{"a;=x": 1})
    await site.parts.store.table(RunPointTable).save(
        [(("ada", OTHER), point.model_copy(update={"attempt": 2}))]
    )
    answer = await site.ask("GET", f"runs/{OTHER}/points.csv")
    assert "parameters.a;'=x" in next(csv.reader(io.StringIO(answer.text)))


async def test_values_of_all_points(site: Site) -> None:
    found = await site.get(f"runs/{ID}/values?sort=-metric&metric=loss")
    assert (found["parameters"], found["metrics"], found["total"]) == (["kind", "lr"], ["loss"], 3)
    assert found["items"] == [
        {"number": 0, "state": "succeeded", "parameters": ["=cmd()", 0.1], "metrics": [0.5]},
        {"number": 1, "state": "succeeded", "parameters": ["b", -0.01], "metrics": [0.25]},
        {"number": 3, "state": "succeeded", "parameters": [None, True], "metrics": [None]},
    ]
    found = await site.get(f"runs/{ID}/values?limit=1&sort=metric&metric=loss")
    assert [point["number"] for point in found["items"]] == [1] and found["total"] == 3
    assert (await site.ask("GET", f"runs/{ID}/values?limit=2001")).status_code == 400
    assert (await site.ask("GET", f"runs/{ID}/values", "barbara")).status_code == 404


async def test_the_best_points(site: Site) -> None:
    found = await site.get(f"runs/{ID}?metric=loss")
    best = {"number": 1, "value": 0.25, "parameters": {"lr": -0.01, "kind": "b"}}
    assert found["lowest"] == best and found["highest"]["number"] == 0
    for query in ("", "?metric=accuracy"):
        found = await site.get(f"runs/{ID}{query}")
        assert (found["lowest"], found["highest"]) == (None, None)


async def test_runs_are_compared(site: Site) -> None:
    found = await site.get(f"run-comparison?a={ID}&b={OTHER}")
    assert [run["name"] for run in found["runs"]] == ["rates-5", "rates-6"]
    assert {fact["name"]: fact["values"] for fact in found["facts"]} == {
        "environment": ["torch", "jax"],
        "gpus": ["1", "2"],
        "memory": ["8G", ""],
    }
    assert {row["name"]: row["values"] for row in found["parameters"]} == {
        "kind": [["=cmd()", "b"], ["b"]],
        "lr": [[-0.01, 0.1, True], [0.1]],
    }
    (metric,) = found["metrics"]
    assert [best["value"] for best in metric["lowest"]] == [0.25, 0.125]
    assert [best["number"] for best in metric["highest"]] == [0, 0]
    assert metric["lowest"][0]["parameters"] == {"lr": -0.01, "kind": "b"}
    again = await site.get(f"run-comparison?a={ID}&b={ID}")
    assert (len(again["runs"]), again["facts"], again["parameters"]) == (1, [], [])


@pytest.mark.parametrize("query", ["", f"a={ID}", f"a={ID}&b=x", f"a={ID}&b={OTHER}&e={OTHER}"])
async def test_what_cannot_be_compared(site: Site, query: str) -> None:
    assert (await site.ask("GET", f"run-comparison?{query}")).status_code == 400


async def test_others_runs_are_not_compared(site: Site) -> None:
    answer = await site.ask("GET", f"run-comparison?a={ID}&b={THIRD}")
    assert (answer.status_code, said(answer)) == (404, "You have no such run.")


@pytest.mark.parametrize("token", ["ada", "session"])
async def test_an_ended_run_is_deleted(site: Site, token: str) -> None:
    answer = await site.ask("DELETE", f"runs/{OTHER}/record", "barbara")
    assert answer.status_code == 404
    answer = await site.ask("DELETE", f"runs/{OTHER}/record", token)
    assert answer.status_code == 200
    assert said(answer) == (
        "The run is deleted. Its files are still in /home/ada/projects/runs/rates-6."
    )
    assert (await site.ask("GET", f"runs/{OTHER}")).status_code == 404
    assert await site.parts.store.table(RunPointTable).keys("ada", OTHER) == []
    assert await site.parts.store.table(RunCurveTable).numbers("ada", OTHER) == set()
    entries, _ = await site.parts.store.audit.find()
    assert json.dumps([(e.action, str(e.outcome)) for e in entries]) == '[["delete-run", "done"]]'


async def test_a_living_run_must_be_stopped_first(site: Site) -> None:
    answer = await site.ask("DELETE", f"runs/{ID}/record")
    assert (answer.status_code, said(answer)) == (409, "This run has not ended. Stop it first.")
    assert (await site.get(f"runs/{ID}"))["name"] == "rates-5"
