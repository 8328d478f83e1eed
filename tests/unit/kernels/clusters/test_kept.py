"""Kept clusters in the session's server, and what a notebook may ask. With real schedulers:
tests/integration/kernels/test_kept_cluster.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.clusters import record as records
from portal_session.clusters.dask import kept_list
from portal_session.clusters.error import ClusterError
from portal_session.clusters.job.dask_scheduler import is_used
from portal_session.clusters.kept import state as states
from portal_session.clusters.kept.kept import KeptClusters
from portal_session.clusters.kept.starter import PATH, SchedulerJob
from portal_session.clusters.kept.state import KeptState
from portal_session.job_kernels.record import BadRecord
from portal_session.service import ServiceError

KERNEL = {"python": "/usr/bin/python3", "cwd": "/home/ada", "workers": 2, "keep": "8:00:00"}
BODY: dict[str, Any] = {**KERNEL, "resources": {"cpus": 1}}
STATE = KeptState({"cpus": 1}, 600.0)


class Portal:
    """The portal: the user's kept clusters by their ids."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.asked: list[tuple[str, str, Any]] = []
        self.refusal: ServiceError | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked.append((method, path, body))
        id = path.removeprefix(PATH).strip("/")
        if not id:
            items = [{"id": each, "workers": 2} for each in self.kept]
            return {"items": items, "session": [], "idle": 600, "most": 10}
        if self.refusal:
            raise self.refusal
        self.kept += [id] if method == "PUT" and id not in self.kept else []
        return {"id": id, "workers": 2, "problem": ""}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def kept(portal: Portal, home: Path) -> KeptClusters:
    return KeptClusters(portal, "/user/ada/", {"PORTAL_KERNEL_PORTS": "40000-40999"})


async def test_its_keys_are_in_the_home_before_a_job_needs_them(
    kept: KeptClusters, portal: Portal
) -> None:
    made = await kept.make(BODY)
    record, state = records.read(made["id"]), states.read(made["id"])
    assert (record.python, record.ports, record.address) == ("/usr/bin/python3", "40000-40999", "")
    assert state == STATE
    wanted = {"cpus": 1, "workers": 2, "keep": "8:00:00"}
    assert portal.asked[-1] == ("PUT", f"{PATH}/{made['id']}", wanted)
    await kept.have(made["id"], {"workers": 5})
    assert portal.asked[-1][2] == {"cpus": 1, "workers": 5}


async def test_a_refusal_leaves_no_key(kept: KeptClusters, portal: Portal) -> None:
    portal.refusal = ServiceError("The limit is 10.", 403)
    with pytest.raises(ServiceError, match=r"The limit is 10\."):
        await kept.make(BODY)
    assert not list(records.path_of("12345678").parent.iterdir())


@pytest.mark.parametrize(
    "wrong",
    [
        {"python": "python3"},
        {"cwd": None},
        {"resources": []},
        {"resources": {"workers": 9}},
        {"resources": {"keep": "1:00:00"}},
    ],
)
async def test_what_is_no_request(kept: KeptClusters, portal: Portal, wrong: Any) -> None:
    with pytest.raises(ServiceError, match="must be"):
        await kept.make({**BODY, **wrong})
    assert not portal.asked


async def test_only_records_of_ended_kept_clusters_are_removed(
    kept: KeptClusters, portal: Portal
) -> None:
    made = await kept.make(BODY)
    of_session = records.ClusterRecord("5e2f3c1a0b7d", "/usr/bin/python3", "/", "c", "k")
    records.write(of_session)
    records.write(of_session._replace(id="0123456789"))
    states.write("0123456789", STATE)
    await kept.items()
    assert records.read(made["id"]) and records.read("5e2f3c1a0b7d")
    with pytest.raises(BadRecord):
        records.read("0123456789")
    assert states.kept_ids() == [made["id"]]


async def test_what_was_lost_is_said_once_to_who_connects(kept: KeptClusters) -> None:
    id = (await kept.make(BODY))["id"]
    job = SchedulerJob(id, 3600, lambda *_: {})
    job._note("tls://gpu01:4000", "gpu01:4001")
    assert (await kept.connect(id))["lost"] == 0
    SchedulerJob(id, 3600, lambda *_: {})._note("tls://gpu02:4000", "gpu02:4001")
    assert (await kept.state(id))["scheduler"] == "tls://gpu02:4000"
    about = await kept.connect(id)
    assert about["lost"] > 0 and about["ends"] == pytest.approx(about["lost"] + 3600)
    assert about["path"] == f"/user/ada/portal/clusters/{id}/"
    assert (await kept.connect(id))["lost"] == 0
    job._forget_address()
    assert (await kept.connect(id))["scheduler"] == ""


async def test_a_state_that_others_can_read_is_not_used(kept: KeptClusters) -> None:
    id = (await kept.make(BODY))["id"]
    path = records.path_of(id).with_suffix(".kept")
    path.chmod(0o644)
    with pytest.raises(ServiceError, match="can be read or written by others"):
        await kept.connect(id)
    path.chmod(0o600)
    path.write_text('{"no": "state"}')
    with pytest.raises(ServiceError, match="is damaged"):
        await kept.connect(id)
    with pytest.raises(ServiceError, match="You have no such kept cluster"):
        await kept.connect("0123456789")


async def test_pages_of_no_kept_cluster_have_no_socket(kept: KeptClusters) -> None:
    await kept.prepare("0123456789")
    assert kept.socket("0123456789") is None


def test_a_client_or_a_task_uses_a_scheduler() -> None:
    def scheduler(clients: list[str], *processing: set[str]) -> Any:
        workers = {at: SimpleNamespace(processing=tasks) for at, tasks in enumerate(processing)}
        return SimpleNamespace(clients=dict.fromkeys(clients), workers=workers)

    assert not is_used(scheduler(["fire-and-forget"], set(), set()))
    assert is_used(scheduler(["fire-and-forget"], set(), {"task"}))
    assert is_used(scheduler(["fire-and-forget", "Client-1"], set()))


def test_the_beginning_of_a_name_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: Any) -> dict[str, Any]:
        facts = {"environment": "torch", "workers": 1, "running": 1, "problem": ""}
        return {"items": [{"id": id, **facts} for id in ("5e2f3c1a", "5e2f4444")]}

    monkeypatch.setattr(kept_list, "ask", ask)
    assert kept_list.id_of("5e2F3") == "5e2f3c1a"
    with pytest.raises(ClusterError, match="is the beginning of several names: '5e2f3c1a', '5e2f4"):
        kept_list.id_of("5e2f")
    for wrong in ("abc", "", "../5e2f3c1a"):
        with pytest.raises(ClusterError, match="You have '5e2f3c1a', '5e2f4444'"):
            kept_list.id_of(wrong)
