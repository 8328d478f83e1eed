"""What the owner of an endpoint is told of a handover while it goes on."""

from __future__ import annotations

from session_records import recorded

from portal.models.session.session import SessionState
from portal.work.endpoint.details import detail_of
from portal.work.endpoint.keeping.replicas import server_of
from portal.work.endpoint.models import Endpoint, EndpointReplica, EndpointVersion

NOW = 1_790_000_000.0
ENDPOINT = Endpoint(name="embed", user="ada", created_at=NOW - 9000, shares={"1": 100})
VERSION = EndpointVersion(
    endpoint="embed",
    number=1,
    created_at=NOW - 9000,
    environment="lab",
    command=("app", "{socket}"),
    resources={"gpus": 2},
)


def replica(id_: str, began: float, **more: object) -> EndpointReplica:
    made = {"user": "ada", "id": id_, "endpoint": "embed", "version": 1, "environment": "lab"}
    return EndpointReplica.model_validate(
        {**made, "command": ("app",), "created_at": began, "ready_at": began + 10, **more}
    )


def test_the_overlap_is_told_while_it_goes_on_and_after_it() -> None:
    over = replica("old", NOW - 8000, ended_at=NOW - 4000, overlap=60.0)
    first, successor = replica("a", NOW - 4200), replica("b", NOW - 100, successor_of="a")
    sessions = {
        server_of(row): recorded(
            id=row.id,
            user="ada",
            server=server_of(row),
            environment="lab",
            job_id=f"7{number}",
            submitted_at=row.created_at,
            started_at=row.created_at + 10,
            state=SessionState.RUNNING,
        )
        for number, row in enumerate((first, successor))
    }
    told = detail_of(
        ENDPOINT, "/models/embed/", [VERSION], [successor, first, over], sessions, {}, NOW
    )
    by_id = {item.id: item for item in told.replicas}
    assert {id_: item.overlap for id_, item in by_id.items()} == {"b": 0.0, "a": 90.0, "old": 60.0}
    assert by_id["a"].gpu_hours == 90 * 2 / 3600
