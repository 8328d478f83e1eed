"""The cluster page by itself, with the answers that it gets: what it looks like at any width."""

from __future__ import annotations

import time
from typing import Any

import pytest
from clusters import job, node, pool, record, snapshot, waiting
from pages_alone import open_alone

from portal.dashboard.builder import Builder
from portal.models import scope
from portal.models.cluster.cluster import JobState
from portal.models.cluster.dashboard import page_facts
from portal.models.cluster.rights import Rights
from portal.models.person import Person

GRACE = Person(
    name="grace",
    admin=True,
    scopes=frozenset({scope.JOBS_READ, scope.JOBS_MANAGE, scope.NODES_MANAGE, scope.SESSIONS_READ}),
)
LONG = "a-name-that-is-as-long-as-names-of-jobs-are"


def cluster() -> dict[str, Any]:
    """Return what the API answers about a small cluster with jobs of long names."""
    told = snapshot(
        node("gpu01", pool(4, 0, 1), cpus=32, cpus_allocated=24, partitions=("gpu",)),
        node("cpu01", cpus=16, partitions=("cpu",)),
        job("1234567", "barbara", {"gpu01": (0, 1)}, name=LONG, account=LONG, memory=10**6),
        job("1234568", "ada", {}, nodes=("cpu01",), cpus=8, state=JobState.COMPLETING),
        waiting("1234569", "barbara", name=LONG, reason="QOSMaxGRESPerUser", gpus=4),
        at=time.time(),
    )
    session = record("s1", "1234567", "barbara", environment=LONG)
    items = Builder().build(told, [session], {}, lambda _: None)
    jobs = [item.model_dump(mode="json") for item in items.jobs.values()]
    head = {"stream": "a1", "version": 1, "taken_at": told.taken_at}
    board = {
        **head,
        "summary": items.summary.model_dump(mode="json"),
        "nodes": {name: item.model_dump(mode="json") for name, item in items.nodes.items()},
        "gpus": {key: item.model_dump(mode="json") for key, item in items.gpus.items()},
    }
    return {
        "board": board,
        "changes": {"reset": False, "changes": [], "own": None},
        "jobs": {"items": jobs, "next": None, "total": len(jobs)},
        "cluster": {"control": Rights(jobs=True, nodes=True).model_dump(), "store": {"error": ""}},
    }


def opened(page: Any, person: Person = GRACE, **answers: Any) -> None:
    open_alone(
        page,
        "cluster.html",
        person=person,
        answers={**cluster(), **answers},
        view=None,
        interval=5,
        items=page_facts(),
    )
    page.locator("#jobs tbody tr").nth(2).wait_for()
    page.get_by_role("button", name="Hold job 1234569").wait_for()


@pytest.mark.parametrize("collapsed", [False, True])
def test_the_page_is_as_wide_as_its_window(page: Any, collapsed: bool) -> None:
    """The table of jobs becomes cards before its columns are wider than their room."""
    opened(page)
    page.evaluate(
        "on => document.documentElement.toggleAttribute('data-portal-collapsed', on)", collapsed
    )
    widths, looks = {}, {}
    for window in range(320, 1921, 20):
        page.set_viewport_size({"width": window, "height": 700})
        widths[window] = page.evaluate("document.documentElement.scrollWidth")
        row = page.locator("#jobs tbody tr").first
        looks[window] = row.evaluate("row => getComputedStyle(row).display")
    assert {window: width for window, width in widths.items() if width > window} == {}
    # A window of 1200 px has a table, with the side bar too.
    assert (looks[380], looks[1200]) == ("grid", "table-row")
