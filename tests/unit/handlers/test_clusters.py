"""Clusters of a session, requested with its token: who may, what is recorded and what is said. On a
real Slurm: tests/hub/sessions/test_dask.py."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from clusters import gpu_node, snapshot
from fake_hub import FakeHub
from session_endpoints import catalog_of, of_server, parts_on, person, said, served
from session_records import recorded
from stored_courses import a_course, stored

from portal.launch.kinds import requested_kind
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.session import SessionState
from portal.store import Store
from portal.work.cluster.kind import DaskWorker, RayWorker
from portal.work.cluster.parts import ClusterParts
from portal.work.cluster.routes import ENDPOINTS
from portal.work.replicas.parts import ReplicaParts
from portal.work.replicas.reconciler import Reconciler
from portal.work.replicas.tables import ReplicaSetTable

ID = "5e2f3c1a0b7d4c8e"
TORCH = Environment(name="torch", title="PyTorch", kind="venv", path="/opt/torch", max_gpus=2)
TOKENS = {
    "session": of_server("ada"),
    "second": of_server("ada", "second"),
    "course": of_server("ada", "course-deep"),
    "marimo": of_server("ada", "marimo"),
    "worker": of_server("ada", f"dask-{ID}-0"),
    "ray worker": of_server("ada", f"ray-{ID}-0"),
    "barbaras": of_server("barbara"),
    "ada": person("ada"),
}


def a_record(id: str, server: str = "", user: str = "ada", **more: Any) -> Any:
    values = {"job_id": f"1{id}", "state": SessionState.RUNNING, "environment": "torch"}
    return recorded(id=id, user=user, server=server, submitted_at=time.time(), **{**values, **more})


RECORDS = (
    a_record("1", options={"environment": "torch", "account": "physics"}),
    a_record("2", "second"),
    a_record("3", "course-deep", options={"course": "deep"}, space="deep"),
    a_record("4", "marimo", options={"kind": "marimo"}, work="marimo"),
    a_record("5", f"dask-{ID}-0", options={"dask": {"id": ID}}, work="dask-worker"),
    a_record("6", user="barbara"),
    a_record("7", f"ray-{ID}-0", options={"ray": {"id": ID}}, work="ray-worker"),
)


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Any) -> None:
        self.client, self.parts = client, parts

    async def ask(
        self, method: str, path: str = f"/{ID}", body: Any = None, token: str = "session"
    ) -> httpx.Response:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        at = f"session/clusters{path}"
        return await self.client.request(method, at, content=content, headers=headers)

    async def stored(self) -> ReplicaSet:
        return await self.parts.store.table(ReplicaSetTable).get("ada", ID)


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    await store.sessions.save(*RECORDS)
    await store.courses.add_space(stored(a_course(), pinned=TORCH))
    jobs = [Job(id=record.job_id, user=record.user, state=JobState.RUNNING) for record in RECORDS]
    seen = snapshot(gpu_node("gpu01", "v100", 4), gpu_node("cpu01"), *jobs)
    sessions = {record.job_id: record for record in RECORDS}

    async def as_seen(*_: Any, **__: Any) -> Any:
        return seen

    async def associations(user: str) -> None:
        return None

    async def refreshed() -> None:
        pass

    catalog = catalog_of(TORCH)
    catalog.visible_to = lambda someone: [TORCH]
    view = SimpleNamespace(sessions=sessions, jobs={}, snapshot=seen)
    parts = parts_on(
        store,
        dashboard=SimpleNamespace(view=view, refreshed=refreshed),
        cluster=SimpleNamespace(runner=None, snapshot=as_seen, associations=associations),
        hub=FakeHub(),
        catalog=catalog,
    )
    async with served(ENDPOINTS, parts, TOKENS.get) as client:
        yield Site(client, parts)


async def test_a_cluster_is_a_replica_set_of_the_sessions_environment(site: Site) -> None:
    answer = await site.ask("GET", "")
    assert (answer.status_code, answer.json()) == (200, {"most": 10})
    answer = await site.ask("PUT", body={"workers": 8, "cpus": 1, "memory": "4G"})
    assert answer.json() == {"id": ID, "workers": 8, "problem": ""}
    stored = await site.stored()
    asked = {"environment": "torch", "account": "physics", "cpus": 1, "memory": "4G"}
    assert stored.options == {**asked, "dask": {"session": "11"}}
    assert (stored.work, stored.replicas) == ("dask-worker", 8)
    assert site.parts.parts_for(ReplicaParts).reconciler.changed.is_set()
    hub = FakeHub()
    await Reconciler(site.parts.store, hub, logging.getLogger("test")).reconcile(time.time())
    _, server, options = min(hub.begun, key=lambda start: start[1])
    kind = requested_kind(options)
    assert isinstance(kind, DaskWorker) and kind.own_server() == server == f"dask-{ID}-1"
    assert kind.within(240).variables()["PORTAL_CLUSTER"] == json.dumps(
        {"id": ID, "number": 1, "seconds": 240}
    )
    assert kind.within(240).own() == {"dask": {"id": ID, "number": 1, "session": "11"}}

    assert (await site.ask("PUT", body={"workers": 2})).json()["workers"] == 2
    assert (await site.ask("DELETE")).status_code == 200
    assert (await site.stored()).replicas == 0
    entries, _ = await site.parts.store.audit.find()
    assert [entry.action for entry in entries] == ["set-replicas"] * 3


async def test_workers_of_ray_are_a_kind_of_their_own(site: Site) -> None:
    answer = await site.ask("PUT", body={"workers": 2, "engine": "ray", "cpus": 1})
    assert answer.json() == {"id": ID, "workers": 2, "problem": ""}
    stored = await site.stored()
    asked = {"environment": "torch", "account": "physics", "cpus": 1}
    assert (stored.work, stored.options) == ("ray-worker", {**asked, "ray": {"session": "11"}})
    kind = requested_kind({**stored.options, "ray": {"id": ID, "number": 1, "session": "11"}})
    assert isinstance(kind, RayWorker) and kind.own_server() == f"ray-{ID}-1"
    assert (await site.ask("GET")).json()["workers"] == 2
    other = await site.ask("PUT", body={"workers": 2, "engine": "dask"})
    assert other.status_code == 409 and "engine" in said(other)
    assert (await site.ask("GET", token="second")).status_code == 404
    over = RECORDS[0].model_copy(update={"state": SessionState.ENDED, "ended_at": time.time()})
    await site.parts.store.sessions.save(over)
    await site.parts.parts_for(ClusterParts).end_forsaken()
    assert (await site.stored()).replicas == 0


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("course", 403, "Clusters are not offered in the sessions of a course."),
        ("marimo", 403, "Clusters are not offered in marimo."),
        ("worker", 403, "Clusters are not offered in a Dask worker."),
        ("ray worker", 403, "Clusters are not offered in a Ray worker."),
        ("ada", 403, ""),
        ("nobody", 403, ""),
    ],
)
async def test_who_may_not(site: Site, token: str, status: int, words: str) -> None:
    for method, body in (("PUT", {"workers": 1}), ("DELETE", None), ("GET", None)):
        answer = await site.ask(method, body=body, token=token)
        assert answer.status_code == status and words in said(answer), answer.text


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"workers": 11}, 403, "A cluster on this site can have 10 workers at most, not 11."),
        ({"workers": 1, "time": "0:01:00"}, 400, "'time' must be 0:02:00 or more for a worker."),
        ({"workers": -1}, 400, "workers"),
        ({"workers": True}, 400, "workers"),
        ({}, 400, "workers"),
        ({"workers": 1, "gpus": 3}, 403, "'PyTorch'"),
        ({"workers": 1, "memory": "much"}, 400, "'memory' must be"),
        ({"workers": 1, "nodes": 2}, 400, "a worker is a job on one node"),
        ({"workers": 1, "cpu": 2}, 400, "cpu"),
        ({"workers": 1, "engine": "spark"}, 400, "engine"),
        ({"workers": 1, "environment": "other"}, 400, "environment"),
        ({"workers": 1, "partition": "nowhere"}, 400, "nowhere"),
    ],
)
async def test_what_is_refused(site: Site, body: Any, status: int, words: str) -> None:
    answer = await site.ask("PUT", body=body)
    assert answer.status_code == status and words in said(answer), answer.text
    assert not await site.parts.store.table(ReplicaSetTable).of_user("ada")


async def test_a_cluster_is_its_sessions_alone(site: Site) -> None:
    await site.ask("PUT", body={"workers": 1})
    for token in ("second", "barbaras"):
        for method in ("GET", "DELETE"):
            assert (await site.ask(method, token=token)).status_code == 404
    other = await site.ask("PUT", "/0123456789", {"workers": 10})
    assert other.status_code == 403 and "you would have 11. The limit is 10." in said(other)
    answer = await site.ask("PUT", body={"workers": 3}, token="second")
    assert answer.status_code == 409 and "another replica set with this id" in said(answer)
    assert (await site.ask("PUT", body={"workers": 3}, token="barbaras")).status_code == 200
    assert (await site.stored()).replicas == 1


async def test_a_site_without_replicas_offers_no_clusters(site: Site) -> None:
    site.parts.parts_for(ReplicaParts).limits.per_user = 0
    answer = await site.ask("GET", "")
    assert answer.status_code == 403 and "not offered on this site" in said(answer)


async def test_workers_end_with_the_session_that_has_the_cluster(site: Site) -> None:
    await site.ask("PUT", body={"workers": 2})
    clusters, changed = site.parts.parts_for(ClusterParts), _changed(site)
    changed.clear()
    await clusters.end_forsaken()
    assert (await site.stored()).replicas == 2 and not changed.is_set()
    over = RECORDS[0].model_copy(update={"state": SessionState.ENDED, "ended_at": time.time()})
    await site.parts.store.sessions.save(over)
    await clusters.end_forsaken()
    assert (await site.stored()).replicas == 0 and changed.is_set()


def _changed(site: Site) -> Any:
    return site.parts.parts_for(ReplicaParts).reconciler.changed
