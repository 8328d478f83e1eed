"""Reservations with GPUs, against a Slurm that answers as 24.11 and 26.05 did on real machines."""

from __future__ import annotations

import logging
import pwd
import time
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stored_courses import a_course, stored

from portal.courses.context import CourseContext
from portal.courses.definition.demand import reserved_gpus
from portal.courses.schedule.reservations import Reservations
from portal.courses.settings import Courses
from portal.errors import InvalidRequest, SlurmRefused, Unavailable
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Node
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.space import Role
from portal.slurm import SlurmRunner, parse
from portal.slurm.commands.run import Output
from portal.slurm.control.reservations import DesiredReservation, ReservationControl
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

# scontrol --oneliner show reservation, word for word but for the numbers.
LINE_24_11 = (
    "ReservationName=r StartTime=1795489245 EndTime=1795492845 Duration=01:00:00 Nodes=gpu[01-02] "
    "NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=gpu Flags=   NodeName=gpu01 CoreIDs=0-15   "
    "NodeName=gpu02 CoreIDs=0-15 TRES=cpu=32,gres/gpu:v100=8,gres/gpu=8 Users=root Groups=(null) "
    "Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) MaxStartDelay=(null)"
)


def node(name: str, kind: str, count: int, partitions: tuple[str, ...] = ("gpu",)) -> Node:
    pools = (GpuPool(type=kind, count=count),) if count else ()
    return Node(name=name, address=name, state="IDLE", cpus=16, memory=65536, gpus=pools,
                partitions=partitions)  # fmt: skip


NODES = {
    one.name: one
    for one in (
        node("gpu01", "v100", 4),
        node("gpu02", "v100", 4),
        node("gpu03", "t4", 2),
        node("old01", "v100", 8, ("v100",)),
    )
}
MIXED = ClusterSnapshot(taken_at=0, nodes=NODES)


class Slurm(SlurmRunner):
    """Keeps reservations, and the number of GPUs that an update names is lost, as in 24.11."""

    def __init__(self, version: str = "24.11.5", tres: str = "gres/gpu,gres/gpu:v100") -> None:
        super().__init__()
        self.version, self.tres = version, tres
        self.held: dict[str, dict[str, str]] = {}
        self.most, self.busy = 8, False
        self.calls: list[list[str]] = []

    async def run(self, argv: Any, **how: Any) -> Output:
        words = [word for word in argv[1:] if not word.startswith("-")]
        if words[:2] == ["show", "config"]:
            said = f"SlurmUser = slurm(1)\nSLURM_VERSION = {self.version}\n"
            return Output(f"{said}AccountingStorageTRES = cpu,mem,{self.tres}\n", "", 0)
        if words[:2] == ["show", "reservation"]:
            return Output("".join(map(self._line, self.held.values())), "", 0)
        self.calls.append(words)
        values = dict(word.split("=", 1) for word in words if "=" in word)
        name = values["ReservationName"]
        if words[0] == "delete":
            if self.busy:
                raise SlurmRefused("Slurm refused: Requested reservation is in use")
            del self.held[name]
            return Output("", "", 0)
        kind, _, number = values.get("TRES", "").rpartition("=")
        if kind and self.version.startswith("22."):
            raise SlurmRefused("TRES type 'gres/gpu' not supported with reservations")
        if kind and kind not in self.tres.split(","):
            raise SlurmRefused("Invalid Trackable RESource (TRES) specification")
        if words[0] == "create":
            if number and int(number) > self.most:
                raise SlurmRefused("Requested nodes are busy")
            self.held[name] = values
        else:
            self.held[name] |= {key: one for key, one in values.items() if key != "TRES"}
        return Output("", "", 0)

    def _line(self, held: dict[str, str]) -> str:
        tres = held.get("TRES", "")
        kind, _, number = tres.rpartition("=")
        counted = f",{tres},gres/gpu={number}" if ":" in kind else f",{tres}" if kind else ""
        nodes = "gpu[01,03]" if held.get("NodeCnt") == "2" else "gpu01"
        return (
            f"ReservationName={held['ReservationName']} StartTime={int(time.time()) + 9} "
            f"EndTime={int(time.time()) + 99} Nodes={nodes} PartitionName=gpu Flags= "
            f"TRES=cpu=16{counted} Users={held['Users']} State=INACTIVE\n"
        )


class Desk:
    """One course, and looks of the service at it."""

    def __init__(self, slurm: Slurm, store: Store) -> None:
        async def snapshot() -> ClusterSnapshot:
            return MIXED

        async def associations(name: str) -> None:
            return None

        async def note(entry: Any) -> None:
            self.notes.append(entry.detail)

        self.slurm, self.store = slurm, store
        self.notes: list[str] = []
        self.now = time.time()
        self.context = CourseContext(
            store=store, hub=None,  # type: ignore[arg-type]
            memberships=MembershipCache(store.spaces.get, store.members.of_person),
            settings=Courses(), note=note,  # type: ignore[arg-type]
            cluster=SimpleNamespace(snapshot=snapshot, associations=associations),  # type: ignore[arg-type]
            control=None, reserving=ReservationControl(slurm), view=lambda: None,  # type: ignore[arg-type]
            log=logging.getLogger("test"), wall=lambda: self.now,
        )  # fmt: skip

    async def reserve(self, **reservation: Any) -> str:
        """The page's message after a look at a course that reserves this."""
        course = kept(reservation=reservation)
        there = await self.store.courses.all()
        if there:
            await self.store.courses.save(course.model_copy(update={"number": there[0].number}))
        else:
            await self.store.courses.add_space(course)
            person = CourseMember(course="deep", person="root", role=Role.STUDENT)
            await self.store.members.put([person])
        self.now += 120
        await Reservations(self.context).run_due(self.now)
        (row,) = await self.store.reservations.all()
        return f"{row.state}: {row.message}"

    @property
    def tres(self) -> str:
        """What Slurm holds."""
        ((_, held),) = self.slurm.held.items()
        return held.get("TRES", "")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite")
    await store.upgrade()
    yield Desk(Slurm(), store)
    await store.close()


def kept(**more: Any) -> StoredCourse:
    day = datetime.now(UTC).date() + timedelta(days=2)
    values = {
        "default": {"gpus": 1, "gpu_type": "v100"}, "largest": {"gpus": 2, "gpu_type": "v100"},
        "begins": date.today() - timedelta(days=5), "ends": date.today() + timedelta(days=60),
        "single": [{"date": day, "begins": "10:00", "minutes": 60}], **more,
    }  # fmt: skip
    return stored(a_course(**values))


@pytest.mark.parametrize(
    ("more", "gpus", "kind"),
    [
        ({"reservation": {"gpus": 3}}, 3, "v100"),
        ({"reservation": {"gpus": 3}, "default": {"gpus": 1}, "largest": {"gpus": 1}}, 3, ""),
        ({"reservation": {"gpus": 3}, "default": {"gpus": 1}}, 3, "v100"),  # the largest names it
        ({"reservation": {"nodes": 2, "gpus": 3}}, 3, "v100"),
        ({"reservation": {"nodes": 2, "partition": "gpu"}}, 8, "v100"),  # two nodes have a t4
        ({"reservation": {"nodes": 1, "partition": "v100"}}, 0, "v100"),  # all nodes have it
        ({"reservation": {"nodes": 2}, "default": {"gpus": 0}, "largest": {"gpus": 0}}, 0, ""),
        ({"reservation": {"gpus": 3}, "default": {"gpus": 1, "gpu_type": "h100"}}, 3, ""),
    ],
)
def test_the_type_is_that_of_the_sessions(more: Any, gpus: int, kind: str) -> None:
    assert reserved_gpus(kept(**more), MIXED) == (gpus, kind)


def test_what_a_reservation_holds_is_read() -> None:
    (held,) = parse.reservations(LINE_24_11).values()
    assert (held.gpus, held.gpu_type, held.nodes) == (8, "v100", ("gpu01", "gpu02"))
    untyped = LINE_24_11.replace("gres/gpu:v100=8,", "")
    (held,) = parse.reservations(untyped).values()
    assert (held.gpus, held.gpu_type) == (8, "")


@pytest.mark.parametrize("kind", ["v100,node=3", "v100=9", "a b", "-x", "x" * 65, "v:1", "\n"])
def test_a_type_that_scontrol_would_misread_is_refused(kind: str) -> None:
    name = "course-deep-20261123T0800"
    wanted = DesiredReservation(name=name, begins=1, ends=2, users=("ada",), gpus=1, gpu_type=kind)
    with pytest.raises(InvalidRequest):
        wanted.words()


async def test_gpus_are_reserved_by_their_type(desk: Desk) -> None:
    assert await desk.reserve(gpus=3) == "made: "
    assert desk.tres == "gres/gpu:v100=3"


async def test_nodes_of_a_mixed_partition_are_those_with_the_type(desk: Desk) -> None:
    assert await desk.reserve(nodes=1, partition="gpu") == "made: "
    (held,) = desk.slurm.held.values()
    assert (held["NodeCnt"], held["TRES"]) == ("1", "gres/gpu:v100=4")


async def test_a_changed_number_is_made_anew_since_an_update_loses_it(desk: Desk) -> None:
    await desk.reserve(gpus=3)
    assert await desk.reserve(gpus=5) == "made: "
    assert desk.tres == "gres/gpu:v100=5"
    calls = len(desk.slurm.calls)
    assert await desk.reserve(gpus=5) == "made: "
    assert len(desk.slurm.calls) == calls  # and then it is left alone


async def test_a_machine_that_knows_no_accounts_takes_nobody_out_of_a_reservation(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_by(_: Any) -> Any:
        raise KeyError

    await desk.reserve(gpus=3)
    calls = len(desk.slurm.calls)
    with monkeypatch.context() as lost:
        lost.setattr(pwd, "getpwnam", nobody_by)
        lost.setattr(pwd, "getpwuid", nobody_by)
        with pytest.raises(Unavailable, match="cannot be looked up"):
            await desk.reserve(gpus=3)
    assert len(desk.slurm.calls) == calls
    assert await desk.reserve(gpus=3) == "made: "
    (held,) = desk.slurm.held.values()
    assert held["Users"] == "root"


async def test_where_the_new_number_is_refused_the_old_one_stays_and_the_page_says_so(
    desk: Desk,
) -> None:
    await desk.reserve(gpus=3)
    said = await desk.reserve(gpus=9)
    assert said.startswith("made: The reservation could not be changed: Not enough nodes are free")
    assert desk.tres == "gres/gpu:v100=3"
    desk.now += 1000
    desk.slurm.most = 16
    assert await desk.reserve(gpus=9) == "made: "
    assert desk.tres == "gres/gpu:v100=9"


async def test_with_sessions_in_it_the_old_number_stays_and_the_page_says_so(desk: Desk) -> None:
    await desk.reserve(gpus=3)
    desk.slurm.busy = True
    assert "could not be changed: Jobs use the reservation" in await desk.reserve(gpus=5)
    desk.slurm.busy = False
    desk.now += 1000
    assert await desk.reserve(gpus=5) == "made: "
    assert desk.tres == "gres/gpu:v100=5"


async def test_gpus_that_slurm_does_not_count_are_refused_in_words(desk: Desk) -> None:
    desk.slurm.tres = "gres/gpu"
    said = await desk.reserve(gpus=3)
    assert said.startswith("refused: Slurm does not track 'gres/gpu:v100'")
    assert "AccountingStorageTRES" in said
    assert (await desk.reserve(nodes=2, gpus=3)).startswith("made: Only nodes are reserved.")


async def test_nodes_without_the_type_are_named_where_slurm_cannot_choose(desk: Desk) -> None:
    desk.slurm.version, desk.slurm.tres = "22.05.8", "gres/gpu"
    said = await desk.reserve(nodes=2, partition="gpu")
    assert said.startswith("made: Nodes without the v100 GPUs that the sessions need: gpu03.")


async def test_what_cannot_be_reserved_is_known_before() -> None:
    async def untracked(version: str, tres: str, kind: str) -> str:
        return await ReservationControl(Slurm(version, tres)).untracked(kind)

    assert await untracked("24.11.5", "gres/gpu,gres/gpu:v100", "v100") == ""
    assert await untracked("26.05.5", "gres/gpu,gres/gpu:V100", "v100") == ""
    assert await untracked("24.11.5", "gres/gpu", "") == ""
    said = await untracked("24.11.5", "gres/gpu", "v100")
    assert said.startswith("Slurm does not track 'gres/gpu:v100'")
    said = await untracked("24.11.5", "billing", "")
    assert said.startswith("Slurm does not track 'gres/gpu'")
    said = await untracked("22.05.8", "gres/gpu,gres/gpu:v100", "v100")
    assert said.startswith("This Slurm (22.05.8) reserves whole nodes")
