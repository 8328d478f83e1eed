"""The launch without I/O: what a request may say, what policy answers, which argv it becomes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hostile import HOSTILE

from portal.errors import InvalidRequest, NotAllowed, PortalError
from portal.launch.choices.dialog_fields import fields_of_move
from portal.launch.container import sbatch_options, session_command, session_script
from portal.launch.fields import OF, document
from portal.launch.kinds import KINDS, USUAL
from portal.launch.partitions import allowed_partitions
from portal.launch.policy import decide
from portal.launch.request import Asked, LaunchRequest, options_from_fields, options_from_form
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    GpuPool,
    Node,
    Partition,
    Reservation,
)
from portal.models.person import Person
from portal.models.session.resources import (
    Duration,
    Memory,
    Resources,
    memory_mib,
    time_seconds,
    time_text,
)
from portal.models.session.session import options_again

ADA = Person(name="ada", groups=("gpu-users",))
LAB = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab", max_time="8:00:00")
DEFAULTS = Resources(cpus=2, memory="4G", time="2:00:00")
ROWS = (Association(user="ada", account="research", qos=("normal", "short")),)


def node(name: str, gpus: tuple[GpuPool, ...] = (), cpus: int = 16) -> Node:
    return Node(name=name, address="127.0.0.1", state="IDLE", cpus=cpus, memory=64000, gpus=gpus)


V100, T4 = GpuPool(type="v100", count=4), GpuPool(type="t4", count=2)
CLUSTER = ClusterSnapshot(
    taken_at=time.time(),
    nodes={
        "gpu01": node("gpu01", (V100,)),
        "gpu05": node("gpu05", (T4,), cpus=8),
        "cpu01": node("cpu01"),
    },
    partitions={
        "gpu": Partition(
            name="gpu", default=True, nodes=("gpu01", "gpu05"), max_time=86400, max_nodes=2
        ),
        "cpu": Partition(name="cpu", nodes=("cpu01",)),
        "secret": Partition(name="secret", nodes=("cpu01",), allow_accounts=("boss",)),
        "old": Partition(name="old", nodes=("cpu01",), state="DOWN"),
    },
    reservations={
        "course": Reservation(
            name="course", start_time=0, end_time=time.time() + 999, users=("student01",)
        )
    },
)


def judge(options: dict[str, Any], **changes: Any) -> Resources:
    arguments = {
        "person": ADA,
        "environments": {"lab": LAB},
        "snapshot": CLUSTER,
        "associations": ROWS,
        "defaults": DEFAULTS,
        **changes,
    }
    return decide(Asked.parse(options), **arguments).resources


@pytest.mark.parametrize(("key", "value"), HOSTILE, ids=lambda v: repr(v)[:40])
def test_hostile_options_are_refused_with_a_sentence(key: str, value: Any) -> None:
    with pytest.raises(PortalError) as caught:
        judge({"environment": "lab", key: value})
    assert 400 <= caught.value.status < 500
    assert caught.value.message.endswith((".", "…"))
    assert caught.value.message.isprintable()


def test_options_must_be_an_object() -> None:
    with pytest.raises(InvalidRequest):
        Asked.parse(["gpus"])  # type: ignore[arg-type]


def test_defaults_fill_what_is_not_asked() -> None:
    assert judge({}) == Resources(cpus=2, memory="4G", time="2:00:00", partition="cpu")


def test_an_environments_defaults_stand_before_the_sites() -> None:
    lab = LAB.model_copy(update={"default": Resources(memory="8G")})
    resources = judge({}, environments={"lab": lab})
    assert (resources.memory, resources.cpus) == (8 * 1024, 2)


@pytest.mark.parametrize(
    ("options", "partition"),
    [
        ({"gpus": 1}, "gpu"),
        ({"gpus": 2, "gpu_type": "t4"}, "gpu"),
        ({"gpus": 0}, "cpu"),
        ({}, "cpu"),
    ],
)
def test_the_partition_follows_the_gpus(options: dict[str, Any], partition: str) -> None:
    assert judge(options).partition == partition


def test_nodes_count_against_an_environments_limits() -> None:
    lab = LAB.model_copy(update={"max_gpus": 2, "max_cpus": 4, "max_memory": Memory.read("8G")})
    one = {"gpus": 1, "cpus": 2, "memory": "4G", "nodes": 2}
    assert judge(one, environments={"lab": lab}).nodes == 2
    for key, value in {"gpus": 2, "cpus": 3, "memory": "5G"}.items():
        with pytest.raises(NotAllowed, match="allows at most"):
            judge({**one, key: value}, environments={"lab": lab})


def test_defaults_stay_within_an_environments_limits() -> None:
    lab = LAB.model_copy(
        update={"max_time": Duration(3600), "max_memory": Memory(2048), "max_cpus": 1}
    )
    resources = judge({}, environments={"lab": lab})
    assert (resources.time, resources.memory, resources.cpus) == (3600, 2048, 1)
    bare = judge({}, environments={"lab": lab}, defaults=Resources())
    assert (bare.time, bare.memory) == (3600, 2048)
    with pytest.raises(NotAllowed, match="a time limit of at most 1 h"):
        judge({"time": "2:00:00"}, environments={"lab": lab})


def test_any_type_means_any_that_the_environment_runs_on() -> None:
    lab = LAB.model_copy(update={"gpu_types": ("t4", "a100")})
    assert judge({"gpus": 1}, environments={"lab": lab}).gpu_type == "t4"
    with pytest.raises(NotAllowed, match="runs only on these GPUs: t4, a100"):
        judge({"gpus": 1, "gpu_type": "v100"}, environments={"lab": lab})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpus": 5}, "at most 4 GPUs"),
        ({"gpus": 3, "gpu_type": "t4"}, "at most 2 t4"),
        ({"gpus": 1, "gpu_type": "h100"}, "no h100"),
        ({"gpus": 1, "partition": "cpu"}, "has no GPUs"),
        ({"partition": "secret"}, "not available to you"),
        ({"partition": "old"}, "not available to you"),
        ({"partition": "nope"}, "no partition 'nope'"),
        ({"account": "boss"}, "cannot use the account"),
        ({"qos": "high"}, "QOS 'high'"),
        ({"reservation": "course"}, "No reservation 'course' is available"),
        ({"time": "9:00:00"}, "at most 8 h."),
        ({"cpus": 17}, "at most 16 CPUs"),
        ({"memory": "1T"}, "at most 62G"),
        ({"nodes": 3, "gpus": 1}, "at most 2 nodes"),
        ({"environment": "other"}, "environment with this name"),
    ],
)
def test_policy_says_why_not(options: dict[str, Any], words: str) -> None:
    with pytest.raises(PortalError) as caught:
        judge(options)
    assert words in caught.value.message
    assert caught.value.field == next(iter(options)), "a dialog shows it there"


def with_features(**features: tuple[str, ...]) -> ClusterSnapshot:
    nodes = {
        name: one.model_copy(update={"features": features.get(name, ())})
        for name, one in CLUSTER.nodes.items()
    }
    return CLUSTER.model_copy(update={"nodes": nodes})


def test_node_features_choose_where_a_session_runs() -> None:
    there = with_features(gpu01=("nvlink", "ssd"), gpu05=("ssd",), cpu01=("ssd", "amd"))
    found = judge({"constraint": "amd"}, snapshot=there)
    assert (found.partition, found.constraint) == ("cpu", "amd")
    assert judge({"constraint": "nvlink"}, snapshot=there).partition == "gpu"
    options = sbatch_options(found, name="n", output="/o", directory="/h")
    assert "--constraint=amd" in options
    assert "--constraint=nvlink&ssd" in sbatch_options(
        judge({"gpus": 1, "constraint": "nvlink&ssd"}, snapshot=there),
        name="n",
        output="/o",
        directory="/h",
    )
    # "Any type" is one that such a node has.
    lab = LAB.model_copy(update={"gpu_types": ("t4", "v100")})
    asked = {"gpus": 1, "constraint": "nvlink"}
    assert judge(asked, snapshot=there, environments={"lab": lab}).gpu_type in (None, "v100")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"constraint": "nvlink", "partition": "cpu"}, "Its nodes have: amd, ssd."),
        ({"constraint": "nvlink&amd", "partition": "gpu"}, "features 'nvlink&amd'"),
        ({"constraint": "nvlink", "gpus": 1, "gpu_type": "t4"}, "has no t4 GPUs"),
        ({"constraint": "nvlink", "nodes": 2}, "has 1 nodes with the features 'nvlink', not 2."),
        ({"constraint": "ssd|amd"}, "'constraint' must be features of nodes"),
        ({"constraint": "[a&b]"}, "'constraint' must be"),
        ({"constraint": "-x"}, "'constraint' must be"),
        ({"constraint": "a&"}, "'constraint' must be"),
    ],
)
def test_features_that_no_node_has_are_refused(options: dict[str, Any], words: str) -> None:
    there = with_features(gpu01=("nvlink", "ssd"), gpu05=("ssd",), cpu01=("ssd", "amd"))
    with pytest.raises(PortalError) as caught:
        judge(options, snapshot=there)
    assert words in caught.value.message


def test_all_reasons_are_told_at_once() -> None:
    with pytest.raises(NotAllowed) as caught:
        judge({"cpus": 17, "memory": "1T"})
    assert "CPUs" in caught.value.message
    assert "memory" in caught.value.message


def test_without_an_association_the_answer_says_whom_to_ask() -> None:
    with pytest.raises(NotAllowed, match=r"no Slurm account.*Ask an admin"):
        judge({}, associations=())


def test_without_accounting_slurm_decides() -> None:
    assert judge({"account": "any"}, associations=None).account == "any"
    assert [p.name for p in allowed_partitions(ADA, CLUSTER, None)] == ["gpu", "cpu", "secret"]


def test_limits_of_the_association() -> None:
    rows = (ROWS[0].model_copy(update={"max_gpus_per_job": 2, "max_wall": 3600}),)
    with pytest.raises(NotAllowed, match=r"a time limit of at most 1 h.*at most 2 GPUs"):
        judge({"gpus": 3}, associations=rows)
    assert judge({"gpus": 2, "time": "1:00:00"}, associations=rows).gpus == 2


def test_the_same_again_gives_the_same() -> None:
    first = decide(Asked.parse({"gpus": 2}), ADA, {"lab": LAB}, CLUSTER, ROWS, DEFAULTS)
    again = options_again(first.options(), first.partition_automatic)
    assert decide(Asked.parse(again), ADA, {"lab": LAB}, CLUSTER, ROWS, DEFAULTS) == first
    # All options name the partition too.
    named = decide(Asked.parse(first.options()), ADA, {"lab": LAB}, CLUSTER, ROWS, DEFAULTS)
    assert named == first.model_copy(update={"partition_automatic": False})


def test_sbatch_options_are_one_argument_each() -> None:
    resources = Resources(gpus=2, gpu_type="v100", cpus=4, memory="8G", time="1:00:00", qos="short")
    options = sbatch_options(resources, name="n", output="/o/%j", directory="/h", comment="a b")
    assert "--gres=gpu:v100:2" in options
    assert "--mem=8G" in options
    assert "--comment=a b" in options
    assert all(option.startswith("--") for option in options)
    assert not any("partition" in option for option in options)


def test_a_container_gets_nv_only_with_gpus_and_no_secret_flag() -> None:
    binds = ({"source": "/data"}, {"source": "/w", "target": "/work dir", "read_only": False})
    env = Environment(name="c", title="C", kind="container", image="/i/c.sif", binds=binds)
    argv = session_command(env, Resources(gpus=1), home="/h", apptainer="apptainer")
    assert "--nv" in argv
    assert "--env" not in argv
    assert argv[argv.index("--bind") + 1] == "/data:/data:ro"
    assert "/w:/work dir" in argv
    assert argv[argv.index("/i/c.sif") + 1 :] == ["python3", "-I", "-m", "portal_session"]
    assert "--nv" not in session_command(env, Resources(), home="/h", apptainer="apptainer")


def run_script(env: dict[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(session_script()), *argv],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **env},
        capture_output=True,
        text=True,
        timeout=20,
    )


# NUL ends a string in argv and in the environment: it cannot be handed over at all.
HOSTILE_TEXTS = sorted({v for _, v in HOSTILE if isinstance(v, str) and "\0" not in v})
HOSTILE_TEXTS += ["$(id)", "a b\n#SBATCH x", "';id;'", "${HOME}", "*", "a[$(touch owned)]", "\\"]


@pytest.mark.parametrize("value", HOSTILE_TEXTS)
@pytest.mark.parametrize(
    ("kind", "name"), [("venv", "ODD"), ("modules", "ODD"), ("container", "APPTAINERENV_ODD")]
)
def test_the_job_script_evaluates_nothing(
    kind: str, name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reaches deploy/session.sh as an argument or in the environment arrives as it was."""
    monkeypatch.chdir(tmp_path)
    owned = Path("/tmp/owned").exists()
    out = run_script(
        {"PORTAL_KIND": kind, "APPTAINERENV_ODD": value},
        "python3",
        "-c",
        "import os, sys; print(repr((os.environ[sys.argv[1]], sys.argv[2:])))",
        name,
        value,
        value,
    )
    assert out.stdout.strip() == repr((value, [value, value])), out.stderr
    assert out.stderr == ""
    assert list(tmp_path.iterdir()) == []
    assert Path("/tmp/owned").exists() == owned


def test_the_job_script_passes_the_gpus_into_the_container() -> None:
    env = {"PORTAL_KIND": "container", "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_ID": "7"}
    out = run_script(env, "env")
    assert "APPTAINERENV_CUDA_VISIBLE_DEVICES=0,1" in out.stdout
    assert "APPTAINERENV_SLURM_JOB_ID=7" in out.stdout


def test_a_missing_module_ends_the_job_with_its_name() -> None:
    out = run_script({"PORTAL_KIND": "modules", "PORTAL_MODULES": "no-such-module/9"}, "true")
    assert out.returncode == 71
    assert "no-such-module/9" in out.stderr


def test_sizes_and_times() -> None:
    assert (memory_mib("4G"), memory_mib("512M"), memory_mib("1T")) == (4096, 512, 1048576)
    assert (time_seconds("1-00:00:01"), time_seconds("2:30:00")) == (86401, 9000)
    assert time_text(90061) == "25:01:01"
    for bad in ("4", "4K", "4G\n", "x"):
        with pytest.raises(ValueError, match="not a memory size"):
            memory_mib(bad)


def test_resources_are_numbers_inside_and_text_at_the_edges() -> None:
    text = {"gpus": 1, "memory": "1024M", "time": "1-00:00:00"}
    resources = Resources(**text)
    assert (resources.memory, resources.time) == (1024, 86400)
    assert resources == Resources(gpus=1, memory="1G", time="24:00:00")
    assert resources.given() == {"gpus": 1, "memory": 1024, "time": 86400}
    # What was written stays as it was written, in Python, JSON and sentences alike.
    assert resources.model_dump(exclude_unset=True) == text
    assert resources.model_dump(mode="json", exclude_unset=True) == text
    assert f"{resources.memory} {resources.time}" == "1024M 1-00:00:00"
    assert Resources(memory=Memory(4096), time=Duration(90)).model_dump(exclude_unset=True) == {
        "memory": "4G",
        "time": "0:01:30",
    }
    for number in (4096, True, 2.5):
        with pytest.raises(ValueError, match="valid string"):
            Resources(memory=number)


@pytest.mark.parametrize(
    ("mib", "text"), [(1, "1M"), (512, "512M"), (1536, "1536M"), (4096, "4G"), (1048576, "1T")]
)
def test_memory_as_text(mib: int, text: str) -> None:
    assert str(Memory(mib)) == text
    assert Memory.read(text) == mib


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "0:01:00"), (86400, "24:00:00"), (999 * 3600, "999:00:00"), (86400000, "1000-0:00:00")],
)
def test_time_as_text(seconds: int, text: str) -> None:
    assert str(Duration(seconds)) == text


def test_what_somebody_else_stored_is_still_read() -> None:
    """Sites have options in their Hub's database as earlier versions wrote them."""
    stored = {
        "environment": "lab",
        "gpus": 2,
        "gpu_type": "v100",
        "cpus": 4,
        "memory": "16384M",
        "time": "1-00:00:00",
        "partition": "gpu",
        "account": None,
        "qos": "",
        "nodes": 1,
    }
    asked = Asked.parse(stored)
    assert asked.environment == "lab"
    assert (asked.resources.memory, asked.resources.time) == (16384, 86400)
    assert asked.given() == {
        "environment": "lab",
        **{"gpus": 2, "gpu_type": "v100", "cpus": 4, "memory": 16384},
        **{"time": 86400, "partition": "gpu", "nodes": 1},
    }


def test_the_fields_of_a_form_may_be_numbers() -> None:
    """A page's JSON has both; it is read once, and means the same as the submitted form."""
    fields = {"environment": "lab", "gpus": "2", "cpus": 4, "memory": " 16 gb ", "qos": ""}
    text = {key: [str(value)] for key, value in fields.items()}
    same = {"environment": "lab", "gpus": 2, "cpus": 4, "memory": "16G"}
    assert options_from_fields(fields) == options_from_form(text) == same
    with pytest.raises(InvalidRequest, match="'gpus' must be a whole number of GPUs"):
        options_from_fields({"gpus": "two"})


@pytest.mark.parametrize("nothing", [None, ""])
@pytest.mark.parametrize("name", document()["properties"])
def test_what_says_nothing_is_in_the_document_too(name: str, nothing: str | None) -> None:
    assert Asked.parse({name: nothing}) == Asked.parse({})
    jsonschema.validate({name: nothing}, document())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({name: []}, document())


def test_every_field_of_a_session_is_in_the_table() -> None:
    assert list(OF) == list(Resources.model_fields)
    assert list(document()["properties"]) == ["course", "project", "environment", *OF]
    shown = fields_of_move(list(CLUSTER.nodes.values()))
    assert [one.name for one in shown] == [
        *("gpus", "gpu_type", "cpus", "memory", "time"),
        "constraint",
    ]
    assert next(one.values for one in shown if one.name == "gpu_type") == ("t4", "v100")
    assert OF["qos"].words == "QOS"
    assert OF["memory"].words == "memory"


def test_what_a_session_opens_is_asked_for_by_its_name() -> None:
    asked = Asked.parse({"environment": "lab", "kind": "marimo"})
    assert asked.kind.name == "marimo"
    assert Asked.parse({"kind": "jupyterlab"}) == Asked.parse({"kind": ""}) == Asked()
    for wrong in ("tensorboard", "course", "nothing", 1, ["marimo"], True):
        with pytest.raises(InvalidRequest, match="'kind' must be one of: jupyterlab"):
            Asked.parse({"kind": wrong})
    with pytest.raises(InvalidRequest, match="A course has no separate marimo"):
        Asked.parse({"kind": "marimo", "course": "dl101"})
    request = decide(asked, ADA, {"lab": LAB}, CLUSTER, ROWS, DEFAULTS)
    assert Asked.parse(request.options()).kind == request.kind
    assert "kind" not in judge_request({}).options()


def judge_request(options: dict[str, Any]) -> LaunchRequest:
    return decide(Asked.parse(options), ADA, {"lab": LAB}, CLUSTER, ROWS, DEFAULTS)


def test_marimo_is_where_the_environment_has_it() -> None:
    has = LAB.model_copy(update={"opens": ("marimo",)})
    kind = Asked.parse({"kind": "marimo"}).kind
    assert kind.unfit(has) == ""
    assert kind.unfit(LAB) == "'Lab' has no marimo. Choose another environment."
    told = json.loads(kind.variables()["PORTAL_PROGRAM"])
    assert told["argv"][7:11] == ["{python}", "-m", "marimo", "edit"]
    assert "{secret}" in told["argv"] and "127.0.0.1" in told["argv"]
    assert kind.variables()["JUPYTERHUB_DEFAULT_URL"] == "/portal/program/"


def test_every_kind_has_words_and_a_name_of_its_own() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert all(kind.title and kind.option for kind in KINDS)
    assert USUAL().options("lab", {"cpus": 1}) == {"environment": "lab", "cpus": 1}
