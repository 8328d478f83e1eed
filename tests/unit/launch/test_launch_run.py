"""A run: its options, its name, its limits, and sbatch's option of its array."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from clusters import ADA, gpu_node, snapshot
from jupyterhub.slugs import is_valid_safe_slug
from launch_lookup import PlayedLookup
from pydantic import Field
from session_records import owner_of
from traitlets import TraitError

from portal.errors import InvalidRequest, NotAllowed, Unavailable
from portal.launch.kinds import KINDS, offered_kinds
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import LaunchFacts, OtherLaunch, Place, SlurmLimits
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Partition
from portal.models.session.resources import Resources
from portal.models.session.run import AskedRun
from portal.models.should_be import should_be
from portal.work.run.kind import Run
from portal.work.run.settings import Runs

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "run-5e2f3c1a0b7d4c8e9a6f"
RUN: dict[str, Any] = {
    "id": ID,
    "name": "rates",
    "source": "work/train.ipynb",
    "folder": "/home/ada/projects/runs/rates",
    "points": 5,
    "at_once": 2,
}
OPTIONS: dict[str, Any] = {"environment": "lab", "gpus": 1, "run": RUN}
LAB = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab")
CLUSTER = snapshot(gpu_node("gpu01", "v100", 4)).model_copy(
    update={"partitions": {"gpu": Partition(name="gpu", default=True, nodes=("gpu01",))}}
)


def hub(
    *others: int, tasks: int | None = None, jobs: Any = (), record: Any = None, **limits: int
) -> Any:
    """The Hub of a user with ``others``, the numbers of points of runs that wait or run; ``jobs``:
    those of runs by id; ``record``: the run as the portal has recorded it, or an error."""
    if isinstance(record, dict):
        record = AskedRun.model_validate(record)
    return PlayedLookup(
        LAB,
        others=[
            *(OtherLaunch("run", "", {"run": {**RUN, "points": points}}) for points in others),
            *(
                OtherLaunch("run", "", {"run": {**RUN, "id": id_}}, job)
                for id_, job in dict(jobs).items()
            ),
        ],
        settings=[Runs(**limits)],
        record=record,
        slurm=SlurmLimits(tasks, 30),
    )


async def placed(points: int = 5, at: Any = None, **more: Any) -> Place:
    asked = Asked.parse({**OPTIONS, "run": {**RUN, "points": points, **more}})
    return await asked.kind.place(asked, at or hub(), LaunchFacts(CLUSTER, None))


def test_its_options_are_parsed() -> None:
    kind = Asked.parse(OPTIONS).kind
    assert kind == Run(run=AskedRun(**RUN))
    assert json.loads(kind.variables()["PORTAL_RUN"]) == {
        "id": ID,
        "name": "rates",
        "folder": "/home/ada/projects/runs/rates",
        "points": 5,
    }
    assert (kind.serves, kind.array, kind.module) == (False, True, "portal_session.runs.point")
    assert list(kind.sbatch_options()) == ["--array=0-4%2", "--requeue"]
    assert kind.name not in offered_kinds() and not kind.job_kernels
    assert Asked.parse({**OPTIONS, "run": None}).kind == JupyterLab()
    inherited = Asked.parse({"run": {**RUN, "keep_failed": True}}).kind
    assert json.loads(inherited.variables()["PORTAL_RUN"])["keep_failed"] is True
    few = {key: value for key, value in RUN.items() if key != "at_once"}
    assert Asked.parse({"run": few}).kind.sbatch_options()[0] == "--array=0-4%10"


@pytest.mark.parametrize(
    ("limit", "notice"), [(None, 300), (60, 15), (600, 150), (3600, 300), (2, 1)]
)
async def test_a_point_that_may_be_resumed_hears_of_its_limit(
    limit: int | None, notice: int
) -> None:
    asked = Asked.parse({**OPTIONS, "run": {**RUN, "resumes": 3}})
    place = await asked.kind.place(asked, hub(notice=300), LaunchFacts(CLUSTER, None))
    kind = place.kind.within(limit)
    assert f"--signal=B:USR1@{notice}" in kind.sbatch_options()
    told = json.loads(kind.variables()["PORTAL_RUN"])
    assert (told["resumes"], told["notice"], told.get("limit")) == (3, notice, limit)
    assert kind.script_variables("ada", "/home/ada") == {"PORTAL_RESUMES": "3"}


@pytest.mark.parametrize(
    ("source", "ranks", "told"),
    [("train.py", 0, "0"), ("train.py", 4, "4"), ("train.ipynb", 0, None)],
)
async def test_a_script_may_have_ranks(source: str, ranks: int, told: str | None) -> None:
    asked = Asked.parse({**OPTIONS, "run": {**RUN, "source": source, "ranks": ranks}})
    place = await asked.kind.place(asked, hub(), LaunchFacts(CLUSTER, None))
    assert place.kind.script_variables("ada", "/home/ada").get("PORTAL_RANKS") == told


async def test_a_notebook_has_no_ranks() -> None:
    asked = Asked.parse({**OPTIONS, "run": {**RUN, "source": "train.ipynb", "ranks": 2}})
    with pytest.raises(InvalidRequest, match="a script"):
        await asked.kind.place(asked, hub(), LaunchFacts(CLUSTER, None))


@pytest.mark.parametrize("ranks", [-1, 257, True, "2"])
def test_ranks_are_a_sensible_number(ranks: object) -> None:
    with pytest.raises(InvalidRequest, match="'ranks'"):
        Asked.parse({**OPTIONS, "run": {**RUN, "ranks": ranks}})


def test_others_are_executed_in_one_job() -> None:
    kind = Asked.parse(OPTIONS).kind
    assert not any("--signal" in option for option in kind.sbatch_options())
    assert kind.script_variables("ada", "/home/ada") == {}


def test_no_other_kind_has_options_of_sbatch() -> None:
    assert [kind for kind in KINDS if kind.array] == [Run]
    assert JupyterLab().sbatch_options() == ()


@pytest.mark.parametrize(
    "change",
    [
        {"id": "1234567"},
        {"id": "ABCDEF01"},
        {"id": "12345678\n"},
        {"id": "0" * 41},
        {"id": 12345678},
        {"name": ""},
        {"name": ".hidden"},
        {"name": "-rf"},
        {"name": "a/b"},
        {"name": "a b"},
        {"name": "rates\n"},
        {"name": "$(id)"},
        {"name": "é"},
        {"name": "a" * 61},
        {"source": ""},
        {"source": "a\nb"},
        {"source": "a\0b"},
        {"source": "a" * 1001},
        {"source": "\u202efdp"},
        {"folder": "projects/runs"},
        {"folder": "/home/../etc"},
        {"folder": "/home/ada/.."},
        {"folder": "/a\x1b[31m"},
        {"folder": "/" + "a" * 1000},
        {"points": 0},
        {"points": 10_001},
        {"points": "5"},
        {"points": 5.0},
        {"points": True},
        {"at_once": 0},
        {"at_once": 1001},
        {"at_once": None},
        {"keep_failed": 1},
        {"keep_failed": "yes"},
        {"after": "7"},
        {"after": "7:8"},
        {"after": "12345678,9"},
        {"after": 12345678},
        {"only": "5"},
        {"only": "2,1"},
        {"only": "0; id"},
        {"only": 3},
        {"attempt": -1},
        {"attempt": 99_001},
        {"origin": {"id": ID}},
        {"origin": {"id": ID, "user": "ada", "folder": "relative"}},
        {"version": -1},
        {"digest": "sha256:1"},
        {"folder": "~ada/runs"},
        {"resumes": -1},
        {"resumes": 1001},
        {"resumes": True},
        {"more": 1},
        {7: 1},
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_hostile_options_are_refused_with_a_sentence(change: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Asked.parse({"environment": "lab", "run": {**RUN, **change}})
    assert caught.value.message.isprintable() and caught.value.message.endswith(".")
    assert caught.value.field == "run"
    (key,) = change
    if key in RUN or key in AskedRun.model_fields:
        assert f"'{key}'" in caught.value.message


def test_the_sentence_about_a_key_is_the_model_s() -> None:
    """Limits are not written twice: the words have those of the type."""
    for name in AskedRun.model_fields:
        with pytest.raises(InvalidRequest) as caught:
            Asked.parse({"run": {**RUN, name: [object]}})
        assert caught.value.message == f"The '{name}' of a run must be {should_be(AskedRun, name)}."
    assert should_be(AskedRun, "points") == "a whole number from 1 to 10,000"
    assert should_be(AskedRun, "attempt") == "a whole number from 0 to 99,000"
    assert should_be(AskedRun, "keep_failed") == "true or false"
    assert should_be(AskedRun, "source") == "a path of 1 to 1,000 printable characters"

    class Smaller(AskedRun):
        points: Annotated[int, Field(ge=2, le=5)]

    assert should_be(Smaller, "points") == "a whole number from 2 to 5"


@pytest.mark.parametrize("hostile", ["rates", [], {}, 7, True, {"id": ID}], ids=ascii)
def test_what_is_no_run_is_refused(hostile: Any) -> None:
    with pytest.raises(InvalidRequest):
        Asked.parse({"run": hostile})


def test_it_is_nothing_else_at_the_same_time() -> None:
    kernel = {"id": ID, "name": "python3"}
    for more in ({"course": "deep"}, {"tensorboard": ["~"]}, {"kernel": kernel}):
        with pytest.raises(InvalidRequest):
            Asked.parse({**OPTIONS, **more})


def test_its_server_s_name_is_its_own() -> None:
    run = Asked.parse(OPTIONS).kind
    assert Run.server_name(ID) == SERVER and owner_of(SERVER) is Run and not Run.serves
    assert is_valid_safe_slug(SERVER)
    assert run.at(SERVER, owner_of(SERVER)) is run
    for other in ("", "second", "run-12345678", "kernel-12345678", f"{SERVER}0"):
        with pytest.raises(InvalidRequest, match=f"must have the name '{SERVER}'"):
            run.at(other, owner_of(other))
    with pytest.raises(InvalidRequest, match="reserved for a run"):
        JupyterLab().at(SERVER, owner_of(SERVER))
    for name in ("run", "run-", "run-mine", "run-1234567", "rerun-12345678"):
        assert owner_of(name) is None


async def test_the_same_again_asks_for_the_run() -> None:
    place = await placed()
    assert place.environments["lab"].title == "Run rates of Lab"
    asked = Asked.parse(OPTIONS)
    usual = Resources(cpus=2)
    request = decide(asked, ADA, place.environments, CLUSTER, None, usual, kind=place.kind)
    assert json.loads(json.dumps(request.options()))["run"] == RUN
    assert Asked.parse(request.options()).kind == asked.kind


async def test_it_starts_after_another_run_of_the_same_user() -> None:
    """Its options name a run, never a job: the Hub knows the job of each run of the user."""
    other = "6e2f3c1a-0b7d"
    place = await placed(5, hub(jobs={other: "77"}), after=other)
    assert list(place.kind.sbatch_options()) == [
        "--array=0-4%2",
        "--requeue",
        "--dependency=afterok:77",
        "--kill-on-invalid-dep=yes",
    ]
    assert place.kind.own()["run"]["after"] == other
    with pytest.raises(Unavailable, match=r"ending at the moment\. Try again in a minute\."):
        await placed(5, hub(jobs={ID: "77"}), after=other)
    assert (await placed(5, hub(jobs={}))).kind.sbatch_options() == [
        "--array=0-4%2",
        "--requeue",
    ]


def test_the_time_zone_of_schedules_is_checked() -> None:
    assert Runs(timezone="Europe/Berlin").timezone == "Europe/Berlin"
    with pytest.raises(TraitError, match=r"c\.Runs\.timezone: 'CET2' is not a time zone"):
        Runs(timezone="CET2")


async def test_who_was_taken_out_of_a_group_starts_no_more() -> None:
    """Each start is judged anew, whoever asks: of the same run, or of its failed points."""
    asked = Asked.parse({**OPTIONS, "partition": "gpu"})
    place, usual = await placed(), Resources(cpus=2)
    with pytest.raises(NotAllowed, match="No environment with this name is available to you"):
        decide(asked, ADA, {}, CLUSTER, None, usual, kind=place.kind)
    closed = {
        name: partition.model_copy(update={"allow_groups": ("physics",), "groups_known": True})
        for name, partition in CLUSTER.partitions.items()
    }
    cluster = CLUSTER.model_copy(update={"partitions": closed})
    member = ADA.model_copy(update={"groups": ("physics",)})
    assert decide(asked, member, place.environments, cluster, None, usual, kind=place.kind)
    former = ADA.model_copy(update={"groups": ("chemistry",)})
    with pytest.raises(NotAllowed, match="partition 'gpu'"):
        decide(asked, former, place.environments, cluster, None, usual, kind=place.kind)


async def test_there_are_limits() -> None:
    await placed(100, hub(100, 100, per_user=3, points=100, points_per_user=300, tasks=100))
    with pytest.raises(NotAllowed, match="are not offered on this site"):
        await placed(1, hub(per_user=0))
    with pytest.raises(NotAllowed, match=r"has 101 points; the limit of this site is 100\."):
        await placed(101, hub(points=100))
    with pytest.raises(NotAllowed, match=r"1,001 points; Slurm allows 1,000 tasks.*MaxArraySize"):
        await placed(1001, hub(tasks=1000))
    with pytest.raises(NotAllowed, match=r"You have 3 runs waiting or running; the limit is 3\."):
        await placed(1, hub(1, 1, 1, per_user=3))
    with pytest.raises(NotAllowed, match=r"have 200 points; with this one, .* 301\. The limit is"):
        await placed(101, hub(100, 100, points_per_user=300))


async def test_some_points_run_again() -> None:
    options = {**OPTIONS, "run": {**RUN, "points": 10_000, "only": "3,17-20", "attempt": 2}}
    kind = Asked.parse(options).kind
    assert isinstance(kind, Run)
    assert kind.sbatch_options() == ["--array=3,17-20%2", "--requeue"]
    assert json.loads(kind.variables()["PORTAL_RUN"])["attempt"] == 2
    at = hub(points_per_user=5, record=options["run"])
    place = await kind.place(Asked.parse(options), at, LaunchFacts(CLUSTER, None))
    assert place.kind == kind.model_copy(update={"kill_wait": 30}), "five of its points count"
    assert json.loads(place.kind.variables()["PORTAL_RUN"])["kill_wait"] == 30
    with pytest.raises(NotAllowed, match=r"it would|they would have 5"):
        at = hub(points_per_user=4, record=options["run"])
        await kind.place(Asked.parse(options), at, LaunchFacts(CLUSTER, None))


async def test_a_repetition_gets_its_version_and_its_home() -> None:
    origin = {"id": ID, "user": "grace", "folder": "/home/grace/runs/rates"}
    run = {**RUN, "folder": "~/runs/rates-2", "origin": origin, "version": 3}
    asked, at = Asked.parse({**OPTIONS, "run": run}), hub(record=run)

    async def pinned(environment: Environment, version: int) -> Environment:
        assert (environment.name, version) == ("lab", 3)
        return environment.model_copy(update={"path": "/opt/lab-3"})

    async def home() -> str:
        return "/home/ada"

    at.pinned, at.home = pinned, home
    place = await asked.kind.place(asked, at, LaunchFacts(CLUSTER, None))
    assert place.environments["lab"].path == "/opt/lab-3"
    named = json.loads(place.kind.variables()["PORTAL_RUN"])
    assert named["folder"] == "/home/ada/runs/rates-2"
    assert (named["origin"], named["version"]) == (origin, 3)
    long = {**run, "folder": f"~/{'x' * 998}", "version": 0}
    with pytest.raises(InvalidRequest, match="The 'folder' of a run must be an absolute path"):
        asked = Asked.parse({**OPTIONS, "run": long})
        at.record = AskedRun.model_validate(long)
        await asked.kind.place(asked, at, LaunchFacts(CLUSTER, None))
