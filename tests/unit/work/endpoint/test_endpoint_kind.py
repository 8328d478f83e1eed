"""The job of an endpoint's replica: what the portal has recorded, once, and nothing else."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from launch_lookup import PlayedLookup

from portal.errors import Conflict, InvalidRequest, NotAllowed
from portal.launch.kinds import requested_kind, reserved_for
from portal.launch.kinds.kind import AskedFor, LaunchFacts
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.replica_set import ReplicaSet
from portal.store import Store
from portal.work.endpoint.kind import ServingReplica
from portal.work.endpoint.models import Endpoint, EndpointReplica, EndpointVersion
from portal.work.endpoint.tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable

NOW = time.time()
ID = "5e2f3c1a0b7d4c8e9a6f"
SET = ReplicaSet(user="ada", id=ID, work="endpoint", options={}, replicas=1, created_at=NOW)
REPLICA = EndpointReplica(
    user="ada", id=ID, endpoint="embed", version=3, created_at=NOW,
    environment="lab", environment_version=2,
    command=("{python}", "-m", "app", "--uds", "{socket}"), gateway="CERTIFICATE",
)  # fmt: skip
LAB = Environment(name="lab", title="Lab", kind=EnvironmentKind.VENV, path="/opt/lab")
OLD = LAB.model_copy(update={"path": "/opt/old"})


class Lookup(PlayedLookup):
    """Lookup with one row for each table, and an earlier version of the environment."""

    def __init__(self, replica: EndpointReplica | None) -> None:
        super().__init__(LAB)
        self.rows: dict[str, Any] = {
            "EndpointReplicaTable": replica,
            "ReplicaSetTable": SET.model_copy(update={"replicas": 2}),
        }

    async def recorded(self, table: Any, id_: str) -> Any:
        return self.rows[table.__name__]

    async def pinned(self, environment: Environment, version: int) -> Environment:
        assert (environment, version) == (LAB, 2)
        return OLD


async def placed(replica: EndpointReplica | None, number: int = 0) -> Any:
    kind = requested_kind({"endpoint": {"id": ID, "number": number}})
    facts = LaunchFacts(ClusterSnapshot(taken_at=NOW), None)
    return await kind.place(AskedFor(environment="lab"), Lookup(replica), facts)


async def test_its_job_has_what_is_recorded_and_the_pinned_environment() -> None:
    place = await placed(REPLICA)
    assert place.environments == {"lab": OLD}
    variables = place.kind.variables()
    assert json.loads(variables["PORTAL_ENDPOINT"]) == {
        "id": ID, "name": "embed", "version": 3, "argv": list(REPLICA.command), "folder": "~",
        "health": "/health",
    }  # fmt: skip
    assert variables["PORTAL_ENDPOINT_GATEWAY"] == "CERTIFICATE"
    assert place.kind.own() == {"endpoint": {"id": ID, "number": 0}}
    server = place.kind.own_server()
    assert server == "ep-5e2f3c1a0b7d4c8e-0"
    assert reserved_for(server) == (ServingReplica, "")


async def test_a_replica_is_launched_once() -> None:
    with pytest.raises(Conflict, match="has been launched"):
        await placed(REPLICA.model_copy(update={"job_id": "12"}))


async def test_a_replica_in_another_environment_is_refused() -> None:
    with pytest.raises(NotAllowed, match="must have the environment 'other'"):
        await placed(REPLICA.model_copy(update={"environment": "other"}))


async def test_a_replica_that_is_not_recorded_is_refused() -> None:
    with pytest.raises(NotAllowed, match="not recorded"):
        await placed(None)


async def test_its_set_has_no_second_one() -> None:
    with pytest.raises(NotAllowed, match="not recorded"):
        await placed(REPLICA, number=1)


@pytest.mark.parametrize("key", ["argv", "gateway", "start", "health", "version", "endpoint"])
def test_nobody_says_what_only_the_portal_does(key: str) -> None:
    with pytest.raises(InvalidRequest):
        requested_kind({"endpoint": {"id": ID, key: "x"}})


async def test_versions_are_numbered_and_a_name_is_the_sites(store: Store) -> None:
    table, versions = store.table(EndpointTable), store.table(EndpointVersionTable)
    endpoint = Endpoint(name="embed", user="ada", created_at=NOW, shares={"1": 100})
    await table.add_endpoint(endpoint)
    assert await table.get("embed") == endpoint
    with pytest.raises(Conflict, match="another name"):
        await table.add_endpoint(endpoint.model_copy(update={"user": "grace"}))
    assert (await table.get("embed")).user == "ada"
    version = EndpointVersion(
        endpoint="embed", number=0, created_at=NOW, environment="lab", command=REPLICA.command
    )
    numbers = [(await versions.add_version(version)).number for _ in range(2)]
    assert numbers == [1, 2]
    assert [each.number for each in await versions.of_endpoint("embed")] == [2, 1]


async def test_replicas_that_have_ended_are_not_among_the_living(store: Store) -> None:
    table = store.table(EndpointReplicaTable)
    await table.add_replica(REPLICA)
    assert await table.living() == [REPLICA]
    await table.change("ada", ID, ended_at=NOW)
    assert await table.living() == []
    assert (await table.get("ada", ID)).ended_at == NOW
