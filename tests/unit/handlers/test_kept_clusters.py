"""A user's kept clusters, requested with a session's token and with that of a scheduler. With real
schedulers: tests/integration/kernels/test_kept_cluster.py."""

from __future__ import annotations

import json
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from fake_hub import FakeHub
from session_endpoints import of_server, said
from test_clusters import ID, RECORDS, TOKENS, Site, a_record, site  # noqa: F401

from portal.errors import NotAllowed
from portal.launch.kinds import requested_kind
from portal.launch.kinds.kind import AskedFor
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.session import SessionState
from portal.work.cluster.parts import ClusterParts
from portal.work.cluster.scheduler import DaskScheduler, scheduler_id
from portal.work.replicas.reconciler import Reconciler
from portal.work.replicas.tables import ReplicaSetTable

SCHEDULER = f"dasks-{ID}-0"
OTHERS = "dasks-0123456789abcdef-0"
TOKENS |= {"scheduler": of_server("ada", SCHEDULER), "another": of_server("ada", OTHERS)}


async def ask(
    site: Site,  # noqa: F811
    method: str,
    path: str = f"/{ID}",
    body: Any = None,
    token: str = "session",
) -> Any:
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body)
    at = f"session/kept-clusters{path}"
    return await site.client.request(method, at, content=content, headers=headers)


async def sets(site: Site) -> dict[str, ReplicaSet]:  # noqa: F811
    return {each.id: each for each in await site.parts.store.table(ReplicaSetTable).every()}


async def with_schedulers(site: Site) -> None:  # noqa: F811
    """Run the job of the cluster's scheduler, and that of another cluster."""
    records = [
        a_record("8", SCHEDULER, work="dask-scheduler", nodes=("gpu01",)),
        a_record("9", OTHERS, work="dask-scheduler"),
    ]
    await site.parts.store.sessions.save(*records)


async def test_a_scheduler_and_workers_are_two_replica_sets(site: Site) -> None:  # noqa: F811
    wanted = {"workers": 4, "gpus": 1, "time": "1:00:00", "keep": "8:00:00"}
    answer = await ask(site, "PUT", body=wanted)
    assert answer.status_code == 200, answer.text
    item = answer.json()
    # The site of test_clusters.py runs one worker of it.
    assert (item["id"], item["workers"], item["running"], item["state"]) == (ID, 4, 1, None)
    stored = await sets(site)
    assert stored.keys() == {ID, scheduler_id(ID)}
    shared = {"environment": "torch", "account": "physics"}
    own = {"dask": {"session": ""}}
    assert stored[ID].options == {**shared, "gpus": 1, "time": "1:00:00", **own}
    least = {"cpus": 1, "gpus": 0, "nodes": 1, "time": "8:00:00"}
    assert stored[scheduler_id(ID)].options == {**shared, **least}

    hub = FakeHub()
    await Reconciler(site.parts.store, hub, logging.getLogger("test")).reconcile(time.time())
    options = {server: options for _, server, options in hub.begun}
    kind = requested_kind(options[SCHEDULER])
    assert isinstance(kind, DaskScheduler) and kind.own_server() == SCHEDULER
    assert kind.within(240).variables()["PORTAL_CLUSTER"] == json.dumps({"id": ID, "seconds": 240})
    assert requested_kind(options[f"dask-{ID}-3"]).own()["dask"]["session"] == ""

    (listed,) = (await ask(site, "GET", "", token="second")).json()["items"]
    assert listed == (await ask(site, "GET", token="second")).json()
    assert (await ask(site, "GET", "", token="barbaras")).json()["items"] == []


async def test_another_session_scales_and_ends_it(site: Site) -> None:  # noqa: F811
    await ask(site, "PUT", body={"workers": 2, "cpus": 1})
    answer = await ask(site, "PUT", body={"workers": 3, "cpus": 1}, token="second")
    assert answer.json()["workers"] == 3
    stored = await sets(site)
    assert stored[ID].options["environment"] == "torch" and stored[ID].options["cpus"] == 1
    assert (await ask(site, "DELETE", token="second")).status_code == 200
    assert {each.replicas for each in (await sets(site)).values()} == {0}
    for method, body in (("GET", None), ("DELETE", None)):
        assert (await ask(site, method, body=body)).status_code == 404
    answer = await ask(site, "PUT", body={"workers": 1})
    assert answer.status_code == 409 and "still ends" in said(answer)
    entries, _ = await site.parts.store.audit.find()
    assert [entry.action for entry in entries] == ["set-replicas"] * 5


async def test_clusters_of_ray_are_not_kept(site: Site) -> None:  # noqa: F811
    answer = await ask(site, "PUT", body={"workers": 2, "engine": "ray"})
    assert answer.status_code == 400 and "clusters of Ray are not kept" in said(answer)
    assert await sets(site) == {}


async def test_a_scheduler_stops_the_workers_of_its_own_cluster(site: Site) -> None:  # noqa: F811
    await ask(site, "PUT", body={"workers": 2})
    await with_schedulers(site)
    item = (await ask(site, "GET", token="session")).json()
    assert item["state"] == "running"
    for method, body in (("GET", None), ("PUT", {"workers": 0}), ("DELETE", None)):
        answer = await ask(site, method, body=body, token="another")
        assert answer.status_code == 403, answer.text
    assert (await ask(site, "GET", "", token="scheduler")).status_code == 403
    answer = await ask(site, "PUT", body={"workers": 0}, token="scheduler")
    assert (answer.status_code, answer.json()["workers"]) == (200, 0), answer.text
    stored = await sets(site)
    assert (stored[ID].replicas, stored[scheduler_id(ID)].replicas) == (0, 1)
    assert (await ask(site, "DELETE", token="scheduler")).status_code == 200
    # It was ended meanwhile: it makes no new one.
    answer = await ask(site, "PUT", body={"workers": 1}, token="scheduler")
    assert answer.status_code == 404


async def test_it_ends_with_its_scheduler_and_not_with_the_session(site: Site) -> None:  # noqa: F811
    await ask(site, "PUT", body={"workers": 2})
    over = RECORDS[0].model_copy(update={"state": SessionState.ENDED, "ended_at": time.time()})
    await site.parts.store.sessions.save(over)
    clusters = site.parts.parts_for(ClusterParts)
    await clusters.end_forsaken()
    stored = await sets(site)
    assert stored[ID].replicas == 2
    table = site.parts.store.table(ReplicaSetTable)  # as Stop on the page does
    await table.save(stored[scheduler_id(ID)].model_copy(update={"replicas": 0}), 0)
    await clusters.end_forsaken()
    assert (await sets(site))[ID].replicas == 0


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"workers": 10}, 403, "can have 9 workers at most, and its scheduler; not 10."),
        ({"workers": 1, "time": "0:01:00"}, 400, "'time' must be 0:02:00 or more for a worker."),
        ({"workers": 1, "keep": "for ever"}, 400, "'time' must be"),
        ({"workers": 1, "gpus": 3}, 403, "'PyTorch'"),
        ({"workers": 1, "nodes": 2}, 400, "a worker is a job on one node"),
        ({"workers": 1, "environment": "other"}, 400, "environment"),
        ({}, 400, "workers"),
    ],
)
async def test_what_is_refused(site: Site, body: Any, status: int, words: str) -> None:  # noqa: F811
    answer = await ask(site, "PUT", body=body)
    assert answer.status_code == status and words in said(answer), answer.text
    assert not await sets(site)


async def test_no_scheduler_stays_without_its_workers(site: Site) -> None:  # noqa: F811
    await site.ask("PUT", "/0123456789", {"workers": 8})
    answer = await ask(site, "PUT", body={"workers": 2})
    assert answer.status_code == 403 and "The limit is 10." in said(answer)
    stored = await sets(site)
    assert scheduler_id(ID) not in stored or stored[scheduler_id(ID)].replicas == 0
    assert ID not in stored
    # The id of a cluster of a session's is not that of a kept one.
    answer = await ask(site, "PUT", "/0123456789", {"workers": 1})
    assert answer.status_code == 409 and "another replica set with this id" in said(answer)


@pytest.mark.parametrize("token", ["course", "marimo", "worker", "ada", "nobody"])
async def test_who_may_not(site: Site, token: str) -> None:  # noqa: F811
    for method, body in (("PUT", {"workers": 1}), ("DELETE", None), ("GET", None)):
        assert (await ask(site, method, body=body, token=token)).status_code == 403


async def test_a_scheduler_runs_once_and_if_it_is_recorded() -> None:
    with pytest.raises(Exception, match="'number'"):
        requested_kind({"dask_scheduler": {"id": scheduler_id(ID), "number": 1}})

    async def none(*_: Any) -> None:
        return None

    kind = DaskScheduler(id=scheduler_id(ID))
    with pytest.raises(NotAllowed, match="has not recorded this replica"):
        await kind.place(AskedFor(), SimpleNamespace(recorded=none), None)  # type: ignore[arg-type]
