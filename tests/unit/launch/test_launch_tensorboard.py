"""The options of a TensorBoard of its own: which folders, and on what it runs."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import ADA, node, pool, snapshot
from launch_lookup import PlayedLookup

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import LaunchFacts
from portal.launch.policy import decide
from portal.launch.request import Asked, LaunchRequest
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Partition
from portal.models.session.resources import Duration, Memory, Resources
from portal.work.tensorboard.kind import (
    LONGEST,
    MOST,
    TensorBoard,
    below,
    for_tensorboard,
    read_folders,
)

LAB = Environment(
    name="lab",
    title="Lab",
    kind="venv",
    path="/opt/lab",
    gpu_types=("v100",),
    default=Resources(gpus=2, cpus=8, memory="64G", partition="gpu", account="research"),
)
LARGEST = Resources(cpus=1, memory="2G", time="1:00:00")
BIG = {"cpus": 16, "memory": 64000}
CLUSTER = snapshot(node("gpu01", pool(), **BIG), node("cpu01", **BIG)).model_copy(
    update={
        "partitions": {
            "gpu": Partition(name="gpu", default=True, nodes=("gpu01",)),
            "cpu": Partition(name="cpu", nodes=("cpu01",)),
        }
    }
)


def judge(
    options: dict[str, Any], lab: Environment = LAB, folders: tuple[str, ...] = ()
) -> LaunchRequest:
    """As the spawner judges a launch with log folders."""
    return decide(
        Asked.parse(options),
        ADA,
        {"lab": for_tensorboard(lab, LARGEST)},
        CLUSTER,
        None,
        Resources(cpus=4),
        kind=TensorBoard(folders=folders) if folders else None,
    )


def test_folders_are_normalized_and_each_stands_once() -> None:
    given = ["/scratch//runs/", "~/runs", "~", "~/", "//scratch/runs", "/a/./b", " /a/b "]
    assert read_folders(given) == ("/scratch/runs", "~/runs", "~", "/a/b")
    assert read_folders(None) == read_folders("") == ()
    assert read_folders(["/with spaces/and 'quotes' $(id) & é"]) == (
        "/with spaces/and 'quotes' $(id) & é",
    )


@pytest.mark.parametrize(
    "hostile",
    [
        "/runs",  # not a list
        [],
        {"0": "/runs"},
        7,
        True,
        [None],
        [7],
        [["/runs"]],
        [""],
        ["  "],
        ["runs"],
        ["./runs"],
        ["~ada/runs"],
        ["../etc"],
        ["/home/ada/../../etc"],
        ["~/.."],
        ["/a/..", "/ok"],
        ["/a\nb"],
        ["/a\0b"],
        ["/a\x1b[31m"],
        ["/exe\u202etxt"],
        ["/a\ud800"],
        ["/" + "a" * LONGEST],
        [f"/runs/{n}" for n in range(MOST + 1)],
        ["s3://bucket/runs"],
        ["gs://bucket"],
        ["file:///etc"],
        ["name:/runs"],
        ["--load_fast=false"],
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_hostile_folders_are_refused_with_a_sentence(hostile: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Asked.parse({"environment": "lab", "tensorboard": hostile})
    assert caught.value.message.isprintable() and caught.value.message.endswith(".")
    assert caught.value.field == "tensorboard"


def test_other_options_stay_as_they_are() -> None:
    asked = Asked.parse({"tensorboard": ["/runs"], "cpus": 1})
    assert (asked.kind, asked.given()) == (TensorBoard(folders=("/runs",)), {"cpus": 1})
    assert Asked.parse({"gpus": 1}).kind == JupyterLab()
    with pytest.raises(InvalidRequest):
        Asked.parse(["not", "an", "object"])  # type: ignore[arg-type]


def test_folders_must_be_ones_own() -> None:
    roots = ("/home/ada", ("/scratch/ada/", "/data"))
    assert below(["~", "~/runs", "/scratch/ada", "/data/runs"], *roots) == (
        "/home/ada", "/home/ada/runs", "/scratch/ada", "/data/runs",
    )  # fmt: skip
    assert below(["~/runs", "/home/ada/runs"], *roots) == ("/home/ada/runs",)
    for folder in ("/", "/etc", "/home/adam", "/home", "/scratch/adam/runs", "/database"):
        with pytest.raises(NotAllowed, match="/home/ada, /scratch/ada, /data") as caught:
            below(["~/runs", folder], *roots)
        assert f"'{folder}'" in caught.value.message


def test_it_has_a_small_job_without_gpus() -> None:
    request = judge({"environment": "lab"})
    assert request.resources == Resources(
        cpus=1, memory="2G", time="1:00:00", partition="cpu", account="research"
    )
    assert request.environment.title == "TensorBoard in Lab"
    small = LAB.model_copy(update={"max_memory": Memory(1024), "max_time": Duration(1800)})
    assert judge({}, small).resources.memory == 1024
    assert judge({}, small).resources.time == 1800


@pytest.mark.parametrize(
    "more",
    [{"gpus": 1}, {"cpus": 2}, {"memory": "3G"}, {"time": "1:00:01"}, {"nodes": 2, "cpus": 1}],
    ids=str,
)
def test_more_than_that_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(NotAllowed, match=r"'TensorBoard in Lab' allows .*at most"):
        judge({"environment": "lab", **more})


def test_less_may_be_asked_for() -> None:
    assert judge({"time": "0:10:00", "memory": "512M"}).resources.time == 600


def test_the_options_that_ask_for_the_same_again() -> None:
    request = judge({}, folders=("/home/ada/runs",))
    assert request.options()["tensorboard"] == ["/home/ada/runs"]
    assert Asked.parse(request.options()).kind == request.kind
    assert "tensorboard" not in judge({}).options()


async def test_the_kind_knows_what_it_may_use_and_show() -> None:
    asked = Asked.parse({"environment": "lab", "tensorboard": ["~/runs", "/scratch/ada/more"]})
    hub: Any = PlayedLookup(LAB, folders=["/scratch/ada"], tensorboard_resources=LARGEST)
    place = await asked.kind.place(asked, hub, LaunchFacts(CLUSTER, None))
    assert place.kind == TensorBoard(folders=("/home/ada/runs", "/scratch/ada/more"))
    assert place.kind.variables()["PORTAL_TENSORBOARD"] == (
        '["/home/ada/runs", "/scratch/ada/more"]'
    )
    assert place.environments == {"lab": for_tensorboard(LAB, LARGEST)}
    with pytest.raises(NotAllowed, match="not in one of your folders"):
        wrong = Asked.parse({"tensorboard": ["/etc"]})
        await wrong.kind.place(wrong, hub, LaunchFacts(CLUSTER, None))


def test_a_course_has_none_of_its_own() -> None:
    with pytest.raises(InvalidRequest, match="A course has no separate TensorBoard"):
        Asked.parse({"course": "dl101", "tensorboard": ["/runs"]})
