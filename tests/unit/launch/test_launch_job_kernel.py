"""A kernel in a job of its own: its options, its name, and where it may run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from clusters import ADA, gpu_node, snapshot
from jupyterhub.slugs import is_valid_safe_slug
from launch_lookup import PlayedLookup
from session_records import owner_of, recorded

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.course_space import CourseSpace
from portal.launch.kinds import KINDS, kind_of, offered_kinds
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import LaunchFacts, OtherLaunch, Place
from portal.launch.policy import decide
from portal.launch.request import Asked, LaunchRequest
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Partition
from portal.models.session.resources import Resources
from portal.work.kernel.kind import JobKernel
from portal.work.kernel.settings import JobKernels

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "kernel-5e2f3c1a0b7d4c8e9a6f"
OPTIONS: dict[str, Any] = {"environment": "lab", "gpus": 1, "kernel": {"id": ID, "name": "python3"}}
LAB = Environment(
    name="lab",
    title="Lab",
    kind="venv",
    path="/opt/lab",
    kernels=({"name": "python3", "title": "Python 3", "language": "python"},),
)
BARE = LAB.model_copy(update={"name": "bare", "title": "Bare", "kernels": ()})
CLUSTER = snapshot(gpu_node("gpu01", "v100", 4)).model_copy(
    update={"partitions": {"gpu": Partition(name="gpu", default=True, nodes=("gpu01",))}}
)


def hub(others: int = 0, most: int = 8) -> Any:
    kernels = [OtherLaunch("kernel", "", {})] * others
    return PlayedLookup(LAB, BARE, others=kernels, settings=[JobKernels(per_user=most)])


async def placed(options: dict[str, Any], at: Any = None) -> Place:
    asked = Asked.parse(options)
    return await asked.kind.place(asked, at or hub(), LaunchFacts(CLUSTER, None))


def test_its_options_are_parsed() -> None:
    kind = Asked.parse(OPTIONS).kind
    assert kind == JobKernel(id=ID, kernel="python3")
    assert json.loads(kind.variables()["PORTAL_KERNEL"]) == {"id": ID, "name": "python3"}
    assert (kind.serves, kind.module) == (False, "portal_session.job_kernels.starter")
    assert kind.name not in offered_kinds() and not kind.job_kernels
    assert Asked.parse({**OPTIONS, "kernel": None}).kind == JupyterLab()
    assert Asked.parse({**OPTIONS, "kernel": ""}).kind == JupyterLab()


@pytest.mark.parametrize(
    "hostile",
    [
        "python3",
        [],
        {},
        7,
        True,
        {"id": ID},
        {"name": "python3"},
        {"id": ID, "name": "python3", "more": 1},
        {"id": None, "name": "python3"},
        {"id": 12345678, "name": "python3"},
        {"id": "1234567", "name": "python3"},
        {"id": "-" * 8, "name": "python3"},
        {"id": "1234567-", "name": "python3"},
        {"id": "1234--5678", "name": "python3"},
        {"id": "12345678\n", "name": "python3"},
        {"id": "ABCDEF01", "name": "python3"},
        {"id": "../../etc", "name": "python3"},
        {"id": "0" * 41, "name": "python3"},
        {"id": "0-" * 20 + "00", "name": "python3"},
        {"id": ID, "name": ""},
        {"id": ID, "name": "a b"},
        {"id": ID, "name": "a/b"},
        {"id": ID, "name": "python3\n"},
        {"id": ID, "name": "$(id)"},
        {"id": ID, "name": "é"},
        {"id": ID, "name": "a" * 101},
        {"id": ID, "name": ["python3"]},
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_hostile_options_are_refused_with_a_sentence(hostile: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Asked.parse({"environment": "lab", "kernel": hostile})
    assert caught.value.message.isprintable() and caught.value.message.endswith(".")
    assert caught.value.field == "kernel"


def test_it_is_nothing_else_at_the_same_time() -> None:
    for more in ({"course": "deep"}, {"tensorboard": ["~"]}, {"kind": "marimo"}):
        with pytest.raises(InvalidRequest):
            Asked.parse({**OPTIONS, **more})


@pytest.mark.parametrize("id_", [ID, ID.replace("-", ""), "12345678", "1-2-3-4-5-6-7-8", "f" * 40])
def test_jupyterhub_accepts_its_server_s_name(id_: str) -> None:
    assert Asked.parse({"kernel": {"id": id_, "name": "ir"}}).kind == JobKernel(id=id_, kernel="ir")
    server = JobKernel.server_name(id_)
    assert is_valid_safe_slug(server) and owner_of(server) is JobKernel


def test_its_server_s_name_is_its_own() -> None:
    kernel = JobKernel(id=ID, kernel="python3")
    assert JobKernel.server_name(ID) == SERVER and owner_of(SERVER) is JobKernel
    assert not JobKernel.serves
    assert kernel.at(SERVER, owner_of(SERVER)) is kernel
    for other in ("", "second", "tensorboard", "course-deep", "kernel-12345678", f"{SERVER}0"):
        with pytest.raises(InvalidRequest, match=f"must have the name '{SERVER}'"):
            kernel.at(other, owner_of(other))
    for kind in (JupyterLab(), JupyterLab(space=CourseSpace(name="deep"))):
        with pytest.raises(InvalidRequest):
            kind.at(SERVER, owner_of(SERVER))
    with pytest.raises(InvalidRequest, match="reserved for a kernel in a job of its own"):
        JupyterLab().at(SERVER, owner_of(SERVER))


@pytest.mark.parametrize("name", ["", "kernel", "kernel-", "kernel-mine", "kernel-1234567", "x"])
def test_other_names_are_free(name: str) -> None:
    record = recorded(server=name, id="x", user="ada", submitted_at=0)
    assert owner_of(name) is None and kind_of(record) is JupyterLab
    assert JupyterLab().at(name, owner_of(name)) == JupyterLab()


def test_names_of_courses_stay_theirs() -> None:
    for kind in KINDS:
        if kind.prefix and kind.serves:
            assert owner_of(f"{kind.prefix}-deep") is kind
    assert owner_of("course-deep") is JupyterLab


async def test_its_environment_has_it() -> None:
    place = await placed(OPTIONS)
    assert place.environments["lab"].title == "Kernel of Lab"
    assert place.kind == JobKernel(id=ID, kernel="python3")
    with pytest.raises(NotAllowed, match=r"'Lab' has no kernel 'ir'\. Its kernels: python3\."):
        await placed({**OPTIONS, "kernel": {"id": ID, "name": "ir"}})
    with pytest.raises(NotAllowed, match="No environment with this name"):
        await placed({**OPTIONS, "environment": "no-such"})


async def test_kernels_that_are_not_known_are_accepted() -> None:
    place = await placed({**OPTIONS, "environment": "bare", "kernel": {"id": ID, "name": "ir"}})
    assert place.environments["bare"].title == "Kernel of Bare"


async def test_there_is_a_limit() -> None:
    await placed(OPTIONS, hub(others=7))
    with pytest.raises(NotAllowed, match=r"You have 8 kernels .*; the limit is 8\. Shut one down"):
        await placed(OPTIONS, hub(others=8))
    with pytest.raises(NotAllowed, match="are not offered on this site"):
        await placed(OPTIONS, hub(most=0))


async def test_the_same_again_asks_for_the_kernel() -> None:
    place = await placed(OPTIONS)
    request = decide(
        Asked.parse(OPTIONS),
        ADA,
        place.environments,
        CLUSTER,
        None,
        Resources(cpus=2),
        kind=place.kind,
    )
    assert isinstance(request, LaunchRequest)
    assert request.environment.title == "Kernel of Lab" and request.resources.gpus == 1
    assert request.options()["kernel"] == {"id": ID, "name": "python3"}
    assert Asked.parse(request.options()).kind == place.kind
