"""The parser, on what real Slurms of every claimed version said (slurm_outputs/record.py)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from portal.errors import ConfigurationError, InvalidRequest, SlurmRefused, SlurmUnavailable
from portal.models.cluster.cluster import GpuPool, Job, JobState, Node
from portal.slurm import end_words, parse, pending_words, state_words
from portal.slurm.commands.errors import error_of, words_of
from portal.slurm.jobs.submission import check_job_id, job_id_of
from portal.slurm.parse.values import exit_status
from portal.slurm.reasons import node_words
from portal.slurm.watch.queue import positions

OUTPUTS = Path(__file__).parents[2] / "slurm_outputs"
VERSIONS = sorted(path.name for path in OUTPUTS.iterdir() if (path / "labels.json").exists())
SEPARATOR = "\x1fSEPARATOR"
HOSTILE = (
    "evil UserId=root(0)\ufffdJobId=99 JobName=x UserId=root(0) Nodes=gpu01 CPU_IDs=0 Mem=1 GRES="
)


class Recording:
    """What one version said."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.labels: dict[str, str] = json.loads(self.read("labels.json"))

    def read(self, name: str) -> str:
        return (OUTPUTS / self.version / name).read_bytes().decode(errors="replace")

    def jobs(self) -> dict[str, Job]:
        """The jobs by label; array tasks and forgeries stay under their ids."""
        found = parse.jobs(self.read("squeue.txt"), SEPARATOR)
        names = {id_: label for label, id_ in self.labels.items()}
        return {names.get(id_, id_): job for id_, job in found.items()}

    def ended(self, label: str) -> Job:
        job = parse.sacct_job(self.read(f"sacct-{label}.txt"), SEPARATOR, self.labels[label])
        assert job is not None
        return job


@pytest.fixture(params=VERSIONS)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_every_claimed_version_is_recorded() -> None:
    assert {"22.05", "24.11", "26.05"} <= set(VERSIONS)


def test_recordings_name_no_machine() -> None:
    for path in OUTPUTS.glob("*/*"):
        text = path.read_bytes()
        for line in text.splitlines():
            assert b"OS=Linux" not in line or b"OS=Linux 6.1.0 #1 SMP" in line, path
        assert b"http" not in text


# -- jobs ---------------------------------------------------------------------------------


def test_states(recording: Recording) -> None:
    labels = {
        JobState.RUNNING: ("two-gpus", "two-nodes", "hostile"),
        JobState.SUSPENDED: ("suspended",),
        JobState.PENDING: ("held", "resources"),
        JobState.COMPLETED: ("completed",),
        JobState.FAILED: ("exit3",),
        JobState.TIMEOUT: ("timeout",),
        JobState.CANCELLED: ("cancelled",),
        JobState.NODE_FAIL: ("node-fail",),
    }
    jobs = recording.jobs()
    found = {state: [jobs[label].state for label in labels[state]] for state in labels}
    assert found == {state: [state] * len(labels[state]) for state in labels}


def test_pending_reasons(recording: Recording) -> None:
    jobs = recording.jobs()
    for label, (reason, words) in {
        "held": ("JobHeldUser", "held by its owner"),
        "begin": ("BeginTime", "start time"),
        "dependency": ("Dependency", "another job"),
        "reservation": ("Reservation", "reservation"),
        "too-long": ("PartitionTimeLimit", "more time than the partition"),
        "qos-limit-2": ("QOSMaxGRESPerUser", "a limit of the QOS is reached: GPUs per user"),
        "not-available": ("ReqNodeNotAvail", "not available"),
        "requeued": ("job requeued in held state", "held"),
    }.items():
        job = jobs[label]
        assert job.state.pending, label
        assert job.reason.startswith(reason), label
        assert words in pending_words(job.reason), label


def test_a_job_that_slurm_holds_says_who_releases_it() -> None:
    """The words of squeue after a start failed (job_state_reason_string in Slurm's source)."""
    words = pending_words("launch failed requeued held")
    ways_out = "release it with 'scontrol release', or launch it again"
    assert words == f"held because its launch failed on its node: {ways_out}"


def test_no_reason_for_a_running_job(recording: Recording) -> None:
    assert recording.jobs()["two-gpus"].reason == ""


def test_a_job_in_full(recording: Recording) -> None:
    job = recording.jobs()["two-gpus"]
    assert (job.user, job.account, job.partition, job.qos) == ("ada", "research", "gpu", "normal")
    assert (job.gpus, job.gpu_type, job.cpus, job.memory) == (2, "v100", 1, 1000)
    assert job.nodes == ("gpu01",)
    assert job.time_limit == 7200
    assert job.comment == "a plain comment"
    assert job.work_dir == "/tmp"
    assert job.stdout == "/dev/null"
    assert job.start_time is not None and job.end_time is not None
    assert job.end_time - job.start_time == 7200
    assert job.submit_time is not None and job.submit_time <= job.start_time
    assert job.exit_code is None
    Job.model_validate(job.model_dump())  # built without checks, and still of the right types


def test_other_resources(recording: Recording) -> None:
    jobs = recording.jobs()
    assert jobs["two-nodes"].nodes == ("gpu01", "gpu02")
    assert (jobs["two-nodes"].gpus, jobs["two-nodes"].user) == (2, "barbara")
    # AccountingStorageTRES of the small cluster names v100 only, so the type is not said here.
    assert (jobs["t4"].gpus, jobs["t4"].gpu_type, jobs["t4"].memory) == (1, "", 4096)
    assert (jobs["resources"].gpus, jobs["resources"].nodes) == (12, ())
    assert jobs["unicode"].name == "Übung — 深度学习 = 1|2"
    assert jobs["two-partitions"].partition == "cpu,gpu"
    assert jobs["reservation"].reservation == "course"
    assert jobs["held"].priority == 0
    assert jobs["too-long"].time_limit == 3 * 86400


def test_arrays_keep_slurms_ids(recording: Recording) -> None:
    array = recording.labels["array"]
    ids = [id_ for id_ in parse.jobs(recording.read("squeue.txt"), SEPARATOR) if "_" in id_]
    assert len([id_ for id_ in ids if id_.startswith(f"{array}_") and "[" not in id_]) == 2
    assert len([id_ for id_ in ids if id_.startswith(f"{array}_[")]) == 1


def test_a_hostile_name_forges_nothing(recording: Recording) -> None:
    found = parse.jobs(recording.read("squeue.txt"), SEPARATOR)
    assert "99" not in found
    assert {job.user for job in found.values()} == {"ada", "barbara"}
    tasks = [id_ for id_ in found if "_" in id_]
    assert set(found) - set(tasks) == set(recording.labels.values()) - {recording.labels["array"]}
    hostile = recording.jobs()["hostile"]
    assert hostile.name == HOSTILE
    assert hostile.user == "ada"
    # U+FFFD stands for each control character and for each byte that is not UTF-8.
    assert hostile.comment.startswith("a|b\ufffdSEPARATE\ufffd[31m \ufffd\ufffd é JobState=")
    assert "\n" not in hostile.comment


def test_gpu_indexes(recording: Recording) -> None:
    jobs = parse.jobs(recording.read("squeue.txt"), SEPARATOR)
    indexes = parse.gpu_indexes(recording.read("job.txt"), jobs)
    label = recording.labels
    assert set(indexes[label["two-nodes"]]) == {"gpu01", "gpu02"}
    assert all(len(held) == 1 for held in indexes[label["two-nodes"]].values())
    assert indexes[label["t4"]] == {"gpu04": (0,)}
    # The forger's name imitates a record of this job: then its GPUs are unknown, not wrong.
    assert label["two-gpus"] not in indexes
    for id_, held in indexes.items():
        assert set(held) <= set(jobs[id_].nodes)
        assert sum(len(one) for one in held.values()) == jobs[id_].gpus


def test_an_answer_of_another_form_is_refused(recording: Recording) -> None:
    text = recording.read("squeue.txt")
    with pytest.raises(ValueError, match="squeue"):
        parse.jobs(text[:-20], SEPARATOR)
    with pytest.raises(ValueError, match="squeue"):
        parse.jobs(text, "\x1fanother")
    assert parse.jobs("", SEPARATOR) == {}


def test_unchanged_jobs_are_the_same_objects(recording: Recording) -> None:
    text = recording.read("squeue.txt")
    first = parse.jobs_by_record(text, SEPARATOR)
    again = parse.jobs_by_record(text, SEPARATOR, first)
    assert all(again[record] is job for record, job in first.items())
    assert len(first) > 20


def test_separators_differ_and_are_safe_in_a_format() -> None:
    one, other = parse.new_separator(), parse.new_separator()
    assert one != other
    assert not set(",:") & set(one)
    assert parse.job_format(one).count(one) == 20


def test_queue_positions(recording: Recording) -> None:
    jobs = parse.jobs(recording.read("squeue.txt"), SEPARATOR)
    places = positions(jobs)
    labels = recording.labels
    assert labels["held"] not in places
    assert labels["two-gpus"] not in places
    waiting = [places[labels[name]] for name in ("resources", "too-long", "dependency")]
    assert sorted(set(waiting)) == sorted(waiting)
    assert min(waiting) >= 1


def test_positions_by_priority_then_age() -> None:
    def job(id_: str, priority: int, submit: float, partition: str = "gpu") -> Job:
        return Job(
            id=id_,
            state=JobState.PENDING,
            priority=priority,
            submit_time=submit,
            partition=partition,
        )

    queue = [
        job("1", 5, 30),
        job("2", 9, 40),
        job("3", 5, 20),
        job("4", 0, 1),
        job("5", 1, 1, "cpu"),
    ]
    assert positions({one.id: one for one in queue}) == {"2": 1, "3": 2, "1": 3, "5": 1}


# -- nodes, partitions, reservations -------------------------------------------------------


def test_nodes(recording: Recording) -> None:
    nodes = parse.nodes(recording.read("node.txt"))
    assert list(nodes) == ["cpu01", "cpu02", *(f"gpu0{index}" for index in range(1, 6))]
    gpu01 = nodes["gpu01"]
    Node.model_validate(gpu01.model_dump())
    assert gpu01.address == "127.0.0.1"
    assert (gpu01.cpus, gpu01.memory) == (16, 64000)
    assert gpu01.partitions == ("gpu",)
    assert gpu01.features == ("v100", "nvlink")
    (pool,) = gpu01.gpus
    assert (pool.type, pool.count) == ("v100", 4)
    assert pool.used >= 3 and pool.used_indexes is not None
    assert len(pool.used_indexes) == pool.used
    assert nodes["gpu04"].gpus[0].type == "t4"
    assert nodes["cpu01"].gpus == ()
    assert nodes["cpu01"].cpus_allocated > 0 and nodes["cpu01"].memory_allocated > 0
    assert gpu01.usable and nodes["cpu01"].usable


def test_nodes_that_cannot_be_used(recording: Recording) -> None:
    nodes = parse.nodes(recording.read("node.txt"))
    drained = nodes["gpu03"]
    assert drained.state == "IDLE+DRAIN"
    assert not drained.usable
    # The reason's text does not become the node's fields, nor the name of who wrote it its text.
    assert drained.reason == "bad cable: State=IDLE NodeAddr=evil x"
    assert drained.address == "127.0.0.1"
    assert nodes["gpu05"].reason == "no power"
    for name in ("gpu05", "cpu02"):
        assert nodes[name].state.startswith("DOWN")
        assert not nodes[name].usable


def test_a_node_that_says_the_same_is_the_same_object(recording: Recording) -> None:
    text = recording.read("node.txt")
    first = parse.nodes_by_record(text)
    assert {node.name: node for node in first.values()} == parse.nodes(text)
    restless = re.sub(r"(CPULoad|FreeMem|LastBusyTime)=\S+", r"\1=7", text)
    assert restless != text
    again = parse.nodes_by_record(restless, first)
    assert again.keys() == first.keys()
    assert all(again[record] is node for record, node in first.items())
    for old, new in (("CPUAlloc=2 ", "CPUAlloc=3 "), ("bad cable: ", "worse: ")):
        assert old in text
        changed = parse.nodes_by_record(text.replace(old, new), first)
        assert sum(node not in first.values() for node in changed.values()) >= 1


def test_partitions(recording: Recording) -> None:
    partitions = parse.partitions(recording.read("partition.txt"))
    gpu, cpu = partitions["gpu"], partitions["cpu"]
    assert (gpu.default, cpu.default) == (True, False)
    assert gpu.nodes == ("gpu01", "gpu02", "gpu03", "gpu04", "gpu05")
    assert (gpu.max_time, gpu.default_time) == (86400, 3600)
    assert (cpu.max_time, cpu.max_nodes) == (None, None)
    assert (gpu.default_memory_per_cpu, gpu.default_memory_per_node) == (1000, None)
    assert (gpu.state, gpu.allow_accounts, gpu.allow_qos, gpu.allow_groups) == ("UP", (), (), ())


def test_reservations(recording: Recording) -> None:
    (course,) = parse.reservations(recording.read("reservation.txt")).values()
    assert (course.name, course.state, course.partition) == ("course", "INACTIVE", "gpu")
    assert course.end_time - course.start_time == 7200
    assert course.nodes == ("gpu02", "gpu04")
    assert course.users == ("ada", "barbara")
    assert "SPEC_NODES" in course.flags
    assert parse.reservations("No reservations in the system\n") == {}


def test_lists_of_names_and_denials() -> None:
    text = (
        "PartitionName=x AllowGroups=staff,students DenyAccounts=guests AllowQos=a,b "
        "Nodes=(null) MaxTime=30:00 DefaultTime=NONE State=DRAIN MaxNodes=4 DefMemPerNode=UNLIMITED"
    )
    partition = parse.partitions(text)["x"]
    assert partition.allow_groups == ("staff", "students")
    assert (partition.deny_accounts, partition.allow_qos) == (("guests",), ("a", "b"))
    assert (partition.nodes, partition.max_nodes) == ((), 4)
    assert (partition.max_time, partition.default_time) == (1800, None)
    assert partition.default_memory_per_node is None
    assert (partition.resume_seconds, partition.one_user) == (None, False)


def test_limits_of_cpus_and_memory_and_a_partitions_own_times() -> None:
    text = (
        "PartitionName=x ExclusiveUser=YES MaxCPUsPerNode=8 MaxCPUsPerSocket=4 Nodes=cpu01 "
        "State=UP MaxMemPerCPU=2000 ResumeTimeout=120"
    )
    partition = parse.partitions(text)["x"]
    assert (partition.max_cpus_per_node, partition.max_cpus_per_socket) == (8, 4)
    assert (partition.max_memory_per_cpu, partition.max_memory_per_node) == (2000, None)
    assert (partition.resume_seconds, partition.one_user) == (120, True)
    unlimited = parse.partitions("PartitionName=x MaxCPUsPerSocket=UNLIMITED Exclusive=NO")["x"]
    assert (unlimited.max_cpus_per_socket, unlimited.one_user) == (None, False)


# -- accounting ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "state", "code", "signal"),
    [
        ("exit3", JobState.FAILED, 3, 0),
        ("signal9", JobState.FAILED, 0, 9),
        ("timeout", JobState.TIMEOUT, 0, 0),
        ("cancelled", JobState.CANCELLED, 0, 0),
        ("cancelled-pending", JobState.CANCELLED, 0, 0),
        ("completed", JobState.COMPLETED, 0, 0),
        ("node-fail", JobState.NODE_FAIL, 0, 0),
    ],
)
def test_ended_jobs(
    recording: Recording, label: str, state: JobState, code: int, signal: int
) -> None:
    job = recording.ended(label)
    assert job.state is state
    assert job.id == recording.labels[label]
    assert job.user == "ada"
    if label != "node-fail":  # its exit status differs by version and means nothing
        assert job.exit_code == code
    if label in ("exit3", "signal9"):
        assert job.exit_signal == signal


def test_who_cancelled(recording: Recording) -> None:
    assert recording.ended("cancelled").reason == "CancelledBy:6101"
    assert recording.ended("completed").reason == ""


def test_peak_memory_is_that_of_the_steps(recording: Recording) -> None:
    job = recording.ended("oom")
    assert job.memory == 100
    assert job.peak_memory is not None
    assert 400 <= job.peak_memory < 600
    assert recording.ended("cancelled-pending").peak_memory is None


def test_a_job_that_accounting_does_not_know(recording: Recording) -> None:
    assert parse.sacct_job("", SEPARATOR, "5") is None
    text = recording.read("sacct-exit3.txt")
    assert parse.sacct_job(text, SEPARATOR, "123456") is None
    with pytest.raises(ValueError, match="sacct"):
        parse.sacct_job(text[:-20], SEPARATOR, "1")


def test_the_last_run_of_a_requeued_job_counts() -> None:
    def row(state: str, step: str = "", memory: str = "") -> str:
        values = dict.fromkeys(parse.SACCT_FIELDS, "")
        values |= {"JobID": f"7{step}", "JobIDRaw": f"7{step}", "State": state, "MaxRSS": memory}
        return "".join(f"{values[name]}{SEPARATOR}" for name in parse.SACCT_FIELDS) + "\n"

    text = row("NODE_FAIL") + row("CANCELLED", ".batch", "900M") + row("FAILED")
    text += row("OUT_OF_MEMORY", ".batch", "70000K")
    job = parse.sacct_job(text, SEPARATOR, "7")
    assert job is not None
    # Slurm with cgroups may say out of memory of the step only.
    assert (job.state, job.peak_memory) == (JobState.OUT_OF_MEMORY, 69)


def test_a_list_of_ended_jobs_has_every_run_and_no_step(recording: Recording) -> None:
    text = recording.read("sacct-two-gpus.txt") + recording.read("sacct-cancelled-pending.txt")
    running, cancelled = parse.sacct_jobs(text, SEPARATOR)
    assert (running.id, running.user, running.gpus) == (recording.labels["two-gpus"], "ada", 2)
    assert cancelled.state is JobState.CANCELLED and cancelled.start_time in (
        None,
        cancelled.end_time,
    )
    assert parse.sacct_jobs("", SEPARATOR) == []
    with pytest.raises(ValueError, match="sacct"):
        parse.sacct_jobs(text[:-20], SEPARATOR)


def test_associations(recording: Recording) -> None:
    (ada,) = parse.associations(recording.read("sacctmgr-ada.txt"))
    assert (ada.account, ada.is_default_account) == ("research", True)
    assert set(ada.qos) == {"normal", "short"}
    assert (ada.max_jobs, ada.max_wall, ada.max_gpus_per_job) == (None, None, None)
    rows = {row.account: row for row in parse.associations(recording.read("sacctmgr-barbara.txt"))}
    assert set(rows) == {"research", "dl101"}
    course = rows["dl101"]
    assert not course.is_default_account
    assert (course.default_qos, course.max_jobs, course.max_submit_jobs) == ("short", 5, 7)
    assert (course.max_gpus_per_job, course.max_wall) == (1, 86400)
    assert parse.associations(recording.read("sacctmgr-nobody.txt")) == ()


def test_qos(recording: Recording) -> None:
    qos = parse.qos(recording.read("sacctmgr-qos.txt"))
    assert set(qos) == {"normal", "short", "capped", "long"}
    assert (qos["normal"].max_wall, qos["normal"].max_tres, qos["normal"].flags) == (None, {}, ())
    assert qos["short"].max_tres == {"user": {"gres/gpu": 1}}
    capped = qos["capped"]
    assert (capped.max_wall, set(capped.flags)) == (5400, {"DenyOnLimit", "OverPartQOS"})
    assert capped.max_tres == {
        "job": {"cpu": 8, "mem": 4096, "gres/gpu": 4, "gres/gpu:v100": 2},
        "account": {"cpu": 6},
        "group": {"gres/gpu": 8},
        "node": {"cpu": 4},
    }
    assert (qos["long"].max_wall, qos["long"].flags) == (14 * 86400, ("PartitionTimeLimit",))
    assert {p.qos for p in parse.partitions(recording.read("partition.txt")).values()} == {""}
    with pytest.raises(ValueError, match="fields"):
        parse.qos("normal|x")


# -- complaints ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["slurmctld", "slurmdbd", "submit", "munged"])
def test_silence_is_told_apart(recording: Recording, name: str) -> None:
    error = error_of("x", recording.read(f"down-{name}.stderr"), 1, None)
    assert isinstance(error, SlurmUnavailable)
    assert error.message.startswith("Slurm does not answer: ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpus", "Requested node configuration is not available"),
        ("account", "Invalid account or account/partition combination"),
        ("partition", "invalid partition specified: nonsense"),
        ("qos", "Invalid qos specification"),
        ("job", "Invalid job id specified"),
    ],
)
def test_refusals_quote_slurm(recording: Recording, name: str, words: str) -> None:
    error = error_of("sbatch", recording.read(f"refused-{name}.stderr"), 1, None)
    assert isinstance(error, SlurmRefused)
    assert words in error.message
    assert "error:" not in error.message and "\n" not in error.message


@pytest.mark.parametrize(
    "words",
    [
        "Unable to contact your supervisor: authentication error, host is down",
        "Unable to connect to database of projects: no route to host",
        "lua: munge your request: connection refused",
    ],
)
@pytest.mark.parametrize(
    "end",
    [
        "sbatch: error: Batch job submission failed: Unspecified error",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition "
        "combination specified",
        "allocation failure: Unspecified error",
    ],
)
def test_a_plugins_refusal_is_one_whatever_its_words(words: str, end: str) -> None:
    """As sbatch 22.05 prints job_submit.lua's log_user and slurm.ERROR."""
    error = error_of("sbatch", f"sbatch: error: {words}. Ask the help desk.\n{end}\n", 1, None)
    assert isinstance(error, SlurmRefused)
    assert error.message.startswith(f"Slurm refused: {words.removeprefix('lua: ')}. Ask the help")
    assert "Unspecified" not in error.message


@pytest.mark.parametrize(
    "stderr",
    [
        "sudo: a password is required",
        "Sorry, user portal is not allowed to execute '/usr/bin/sbatch' as ada on node.",
        "sudo: unknown user nonsense",
    ],
)
def test_sudo_is_a_matter_of_the_site(stderr: str) -> None:
    assert isinstance(error_of("sbatch", stderr, 1, "ada"), ConfigurationError)


def test_words_have_no_control_characters() -> None:
    said = words_of(
        "sbatch: error: invalid\x1b[31m partition\x00\nsudo: unable to resolve host x\n"
    )
    assert said == "invalid [31m partition"
    assert len(words_of("x" * 5000)) <= 600


# -- single values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu01", ("gpu01",)),
        ("gpu[01-03,07],cpu1", ("gpu01", "gpu02", "gpu03", "gpu07", "cpu1")),
        ("gpu[9-11]", ("gpu9", "gpu10", "gpu11")),
        ("r[1-2]n[08-09]", ("r1n08", "r1n09", "r2n08", "r2n09")),
        ("a[1]-ib,b", ("a1-ib", "b")),
        ("(null)", ()),
        ("", ()),
    ],
)
def test_hosts(text: str, hosts: tuple[str, ...]) -> None:
    assert parse.hosts(text) == hosts


@pytest.mark.parametrize(
    "text", ["gpu[1-2", "gpu]1[", "x[1-999999999]", "x[a-b]", "x[1-999][1-999]"]
)
def test_bad_hosts(text: str) -> None:
    with pytest.raises(ValueError, match="hosts"):
        parse.hosts(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:4", [("gpu", 4, None)]),
        ("gpu", [("gpu", 1, None)]),
        ("gpu:v100:4(S:0-1)", [("v100", 4, None)]),
        ("gpu:(null):4(IDX:0-3)", [("gpu", 4, (0, 1, 2, 3))]),
        ("gpu:v100:0(IDX:N/A)", [("v100", 0, ())]),
        ("gpu:v100:2(IDX:0-1,3),gpu:a100:1(IDX:4)", [("v100", 2, (0, 1, 3)), ("a100", 1, (4,))]),
        ("gres:gpu:t4:2", [("t4", 2, None)]),
        ("gres/gpu:v100:4", [("v100", 4, None)]),
        ("gpu:1g.5gb:7(S:0),shard:8", [("1g.5gb", 7, None)]),
        ("gpu:a100:no_consume:4", [("a100", 4, None)]),
        ("lustre:1,mps:400,shard:4(0/4)", []),
        ("(null)", []),
        ("N/A", []),
        ("", []),
    ],
)
def test_gres_forms(text: str, found: list[tuple[str, int, tuple[int, ...] | None]]) -> None:
    assert [tuple(one) for one in parse.gpus(text)] == found


def test_pools_match_names_that_one_side_leaves_out() -> None:
    expected = (GpuPool(type="v100", count=4, used=2, used_indexes=(0, 1)),)
    assert parse.pools("gpu:4", "gpu:v100:2(IDX:0-1)") == expected
    assert parse.pools("gpu:v100:4(S:0-1)", "gpu:(null):2(IDX:0-1)") == expected
    assert parse.pools("gpu:v100:4", "") == (GpuPool(type="v100", count=4),)
    assert parse.pools("(null)", "gpu:0") == ()


@pytest.mark.parametrize(
    ("gres", "used", "expected"),
    [
        # Of 22.05, with two shards of one GPU in use, then of a node with MPS.
        ("gpu:t4:2,shard:t4:8", "gpu:t4:0(IDX:N/A),shard:t4:1(IDX:0),mps:0", [(1, (0,), (0,))]),
        ("gpu:t4:2,mps:t4:200", "gpu:t4:0(IDX:N/A),shard:0,mps:t4:1(IDX:1)", [(1, (1,), (1,))]),
        ("gpu:t4:2,shard:t4:8", "gpu:t4:1(IDX:1),shard:t4:1(IDX:0),mps:0", [(2, (1, 0), (0,))]),
        # Newer: of each GPU, the shards in use and all.
        ("gpu:t4:2,shard:t4:8", "gpu:t4:0(IDX:N/A),shard:t4:5(4/4,1/4)", [(2, (0, 1), (0, 1))]),
        ("gpu:t4:2,shard:8", "gpu:t4:0(IDX:N/A),shard:2(0/4,2/4)", [(1, (1,), (1,))]),
        ("gpu:t4:2,shard:t4:8", "gpu:t4:0(IDX:N/A),shard:t4:0(0/4,0/4)", [(0, (), ())]),
        # Of 26.05, with one GPU in use as a whole.
        ("gpu:t4:2,shard:t4:8", "gpu:t4:1(IDX:1),shard:t4:2(2/4,-/4)", [(2, (1, 0), (0,))]),
        # Without indexes: as many as hold so many.
        ("gpu:2,shard:8", "gpu:0,shard:5", [(2, None, ())]),
        ("gpu:2,shard:8", "gpu:0,shard:3", [(1, None, ())]),
        # Two types: those of the shards, by name or by index.
        (
            "gpu:t4:2,gpu:a100:2,shard:a100:8",
            "gpu:t4:0(IDX:N/A),gpu:a100:0(IDX:N/A),shard:a100:1(IDX:3)",
            [(0, (), ()), (1, (3,), (3,))],
        ),
        (
            "gpu:t4:2,gpu:a100:2,shard:16",
            "gpu:t4:1(IDX:1),gpu:a100:0(IDX:N/A),shard:2(1/4,0/4,1/4,0/4)",
            [(2, (1, 0), (0,)), (1, (2,), (2,))],
        ),
    ],
)
def test_gpus_in_shared_use_are_in_use(
    gres: str, used: str, expected: list[tuple[int, tuple[int, ...] | None, tuple[int, ...]]]
) -> None:
    node_pools = parse.pools(gres, used)
    assert [(pool.used, pool.used_indexes, pool.shared_indexes) for pool in node_pools] == expected
    assert all(pool.used <= pool.count for pool in node_pools)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cpu=2,mem=4000M,gres/gpu=2,gres/gpu:v100=2", (2, "v100")),
        ("gres/gpu:v100=4", (4, "v100")),
        ("gres/gpu=3", (3, "")),
        ("gres/gpu=3,gres/gpu:a=1,gres/gpu:b=2", (3, "")),
        ("cpu=1,mem=1G", (0, "")),
        ("N/A", (0, "")),
    ],
)
def test_tres_gpus(text: str, found: tuple[int, str]) -> None:
    assert parse.tres_gpus(text) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1-02:03:04", 93784),
        ("2:03:04", 7384),
        ("30:00", 1800),
        ("45", 45),
        ("UNLIMITED", None),
        ("N/A", None),
        ("NOT_SET", None),
        ("", None),
    ],
)
def test_seconds(text: str, value: int | None) -> None:
    assert parse.seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4000M", 4000),
        ("62.50G", 64000),
        ("4Gn", 4096),
        ("1K", 1),
        ("64000", 64000),
        ("1.5T", 1572864),
        ("0", 0),
        ("N/A", None),
        ("UNLIMITED", None),
    ],
)
def test_mebibytes(text: str, value: int | None) -> None:
    assert parse.mebibytes(text) == value


def test_timestamps() -> None:
    assert parse.timestamp("1795229157") == 1795229157.0
    assert parse.timestamp("2026-11-21T02:45:57") is not None
    for text in ("Unknown", "N/A", "None", "NONE", "0", ""):
        assert parse.timestamp(text) is None


def test_exit_status() -> None:
    assert exit_status("3:0") == exit_status("768") == (3, 0)
    assert exit_status("0:9") == exit_status("9") == (0, 9)
    assert exit_status("4021") == (0, 53)
    assert exit_status("") == (None, None)


def test_job_states() -> None:
    assert parse.job_state("CANCELLED by 6101") is JobState.CANCELLED
    assert parse.job_state("COMPLETED") is JobState.COMPLETED
    assert parse.job_state("FAILED,REQUEUED") is JobState.REQUEUED
    assert parse.job_state("SOMETHING_NEW") is JobState.UNKNOWN
    assert not JobState.UNKNOWN.ended
    for state in JobState:
        assert parse.job_state(state.value) is state
        assert state_words(state) != state.value
        assert [state.pending, state.running, state.ended].count(True) == (state != "UNKNOWN")


def test_node_states() -> None:
    usable = {"mixed-": "MIXED+PLANNED", "ALLOCATED": "ALLOCATED"}
    unusable = {
        "mixed*": "MIXED+NOT_RESPONDING",
        "IDLE+DRAIN": "IDLE+DRAIN",
        "DOWN*+DRAIN": "DOWN+NOT_RESPONDING+DRAIN",
        "down$": "DOWN+MAINT",
        "down~": "DOWN+POWERED_DOWN",
    }
    for text, state in (usable | unusable).items():
        assert parse.node_state(text) == state
        assert Node(name="x", address="x", state=state).usable is (text in usable), text


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("idle~", "off to save power, is switched on when needed, about 10 min"),
        ("IDLE+CLOUD+POWERED_DOWN", "off to save power, is switched on when needed"),
        ("alloc#*", "is being switched on, about 10 min"),
        ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "is being switched on"),
        ("IDLE+POWER_UP", "is being switched on"),
        ("idle%", "is being switched off, and on again when needed"),
        ("mixed!", "is switched off when its jobs end, and on again when needed"),
    ],
)
def test_a_node_that_saves_power_takes_jobs(state: str, words: str) -> None:
    node = Node(name="x", address="x", state=parse.node_state(state))
    assert node.usable and node.asleep and node.responding
    assert node_words(node.state, 600).startswith(words)
    assert node_words(node.state).count("about") == 0
    assert "switched on" in state_words(JobState.CONFIGURING), "of a job that has got it"
    for away in ("DRAIN", "DOWN", "FAIL", "MAINT"):
        broken = node.model_copy(update={"state": f"{node.state}+{away}"})
        assert not broken.usable and "switched" not in node_words(broken.state, 600)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "waiting for resources"),
        ("AssocGrpGRES", "a limit of the account is reached: GPUs together (AssocGrpGRES)"),
        ("QOSMaxCpuPerUserLimit", "a limit of the QOS is reached: CPUs per user"),
        ("AssocGrpMemLimit", "memory together"),
        ("ReqNodeNotAvail, UnavailableNodes:gpu03", "not available now"),
        ("SomethingNobodyKnows", "SomethingNobodyKnows"),
    ],
)
def test_reasons_in_words(reason: str, words: str) -> None:
    assert words in pending_words(reason)


def test_ends_in_words(recording: Recording) -> None:
    assert end_words(recording.ended("exit3")) == "it failed with exit code 3"
    assert "signal 9" in end_words(recording.ended("signal9"))
    assert end_words(recording.ended("timeout")) == "it reached its time limit"
    assert "cancelled by 6101" in end_words(recording.ended("cancelled"))


@pytest.mark.parametrize("text", ["", "-1", "12 ", "1;2", "1\n", "abc", "1_2_3", "$(id)", "\u0661"])
def test_bad_job_ids(text: str) -> None:
    with pytest.raises(InvalidRequest):
        check_job_id(text)


def test_job_ids() -> None:
    assert check_job_id("12_3") == "12_3"
    assert job_id_of("123\n") == "123"
    assert job_id_of("123;cluster\n") == "123"
    for text in ("", "Submitted batch job x"):
        with pytest.raises(SlurmRefused):
            job_id_of(text)
