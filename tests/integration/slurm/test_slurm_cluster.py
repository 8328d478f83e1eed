"""The watcher and the runner, on a small real Slurm of their own (slurm_outputs/small.py)."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from small import SmallSlurm
from small_slurm import started

from portal.errors import InvalidRequest, SlurmRefused, SlurmUnavailable
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.session.run import PointState
from portal.slurm import Cluster, SlurmRunner, end_words
from portal.work.run.tables.points import PointKeys
from portal.work.run.tasks import PointNews, is_special, point_news, tasks_by_array, waiting_words

SLEEP = ("--output=/dev/null", "--wrap", "sleep 300")
WATCHED = re.compile(r"^\s*(REQUEST_\w+_INFO\w*)\s+\(.*count:(\d+)", re.MULTILINE)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSlurm]:
    with started(SmallSlurm(tmp_path_factory.mktemp("slurm"))) as running:
        yield running


@pytest.fixture(scope="module")
def past_its_time(slurm: SmallSlurm) -> str:
    """A job that runs into its time limit while the other tests run: a minute is the least."""
    limits = ["--job-name=past-its-time", "--partition=cpu", "--time=1"]
    return slurm.run("sbatch", "--parsable", *limits, *SLEEP).strip()


@pytest.fixture
async def cluster(slurm: SmallSlurm, past_its_time: str) -> AsyncIterator[Cluster]:
    """A watcher that may ask as often as a test likes; the queue is empty afterwards."""
    one = new_cluster(slurm, rpcs_per_second=100.0, burst=100)
    yield one
    one.close()
    for line in slurm.run("squeue", "--noheader", "-o", "%A %j").splitlines():
        job_id, _, name = line.partition(" ")
        if name != "past-its-time":  # it needs its minute
            slurm.run("scancel", job_id, check=False)


def new_cluster(slurm: SmallSlurm, *, patience: float = 60, **settings: float) -> Cluster:
    runner = SlurmRunner(slurm_conf=slurm.env["SLURM_CONF"])
    return Cluster(runner=runner, patience=patience, **settings)


async def until(cluster: Cluster, job_id: str, *states: JobState) -> Job:
    """The job once it is in one of these states."""
    for _ in range(300):
        job = (await cluster.snapshot(time.time(), urgent=True)).jobs.get(job_id)
        if job is not None and job.state in states:
            return job
        await asyncio.sleep(0.1)
    raise AssertionError(f"job {job_id} is {job and job.state}, not {states}")


async def ended(cluster: Cluster, job_id: str) -> Job:
    """The ended job, when accounting knows its end too."""
    for _ in range(100):
        job = await cluster.ended_job(job_id)
        if job is not None:
            return job
        await asyncio.sleep(0.2)
    raise AssertionError(f"job {job_id} did not end")


async def in_accounting(cluster: Cluster, job_id: str, true: Callable[[Job], bool]) -> Job:
    """The job as accounting has it, once that is so."""
    for _ in range(300):
        recorded = await cluster._ends._accounting(job_id)
        if recorded is not None and true(recorded):
            return recorded
        await asyncio.sleep(0.2)
    raise AssertionError(recorded)


def requests(slurm: SmallSlurm) -> int:
    """How many questions slurmctld was asked since ``sdiag --reset``, without sdiag's own."""
    by_type = slurm.run("sdiag").partition("by message type")[2].partition("by user")[0]
    found = {name: int(count) for name, count in WATCHED.findall(by_type)}
    return sum(count for name, count in found.items() if name != "REQUEST_STATS_INFO")


# -- snapshots -----------------------------------------------------------------------------


async def test_a_snapshot_in_full(slurm: SmallSlurm, cluster: Cluster) -> None:
    job_id = await cluster.submit(["sbatch", "--gpus=v100:2", "--job-name=train", *SLEEP])
    job = await until(cluster, job_id, JobState.RUNNING)
    assert (job.name, job.user, job.gpus, job.gpu_type) == ("train", slurm.user, 2, "v100")
    before = time.time()
    snapshot = await cluster.snapshot(before, jobs_only=False, gpu_indexes=True)
    assert snapshot.error == ""
    assert before <= snapshot.taken_at <= time.time()
    assert set(snapshot.nodes) == set(slurm.nodes)
    assert set(snapshot.partitions) == {"gpu", "cpu"}
    assert snapshot.reservations == {}
    (node,) = job.nodes
    assert len(snapshot.jobs[job_id].gpu_indexes[node]) == 2
    fresh = new_cluster(slurm)
    (pool,) = (await fresh.snapshot()).nodes[node].gpus
    fresh.close()
    assert (pool.type, pool.count, pool.used) == ("v100", 4, 2)
    ClusterSnapshot.model_validate(snapshot.model_dump())


async def test_all_callers_share_one_question(slurm: SmallSlurm) -> None:
    cluster = new_cluster(slurm, jobs_ttl=600, nodes_ttl=600, partitions_ttl=600)
    await asyncio.gather(*(cluster.snapshot() for _ in range(50)))
    assert dict(cluster.runner.runs) == {"squeue": 1, "scontrol": 3}
    await cluster.snapshot()  # still fresh
    assert dict(cluster.runner.runs) == {"squeue": 1, "scontrol": 3}
    now = time.time()
    found = await asyncio.gather(*(cluster.snapshot(now) for _ in range(50)))
    assert dict(cluster.runner.runs) == {"squeue": 2, "scontrol": 3}
    assert all(one is found[0] for one in found)
    assert found[0].taken_at >= now
    cluster.close()


async def test_sixty_waiting_sessions_cost_one_request_a_second(slurm: SmallSlurm) -> None:
    """Counted by slurmctld itself, whatever the speed of this machine."""
    cluster = new_cluster(slurm, burst=2)
    await cluster.snapshot()
    await asyncio.sleep(cluster.burst / cluster.rpcs_per_second + 4)  # the bucket is full again
    slurm.run("sdiag", "--reset")
    began = time.monotonic()
    looks = 0

    async def session() -> None:
        nonlocal looks
        while time.monotonic() - began < 10 or looks < 60 * 2:
            await cluster.snapshot(time.time() - 0.5)
            looks += 1
            await asyncio.sleep(0.2)

    await asyncio.gather(*(session() for _ in range(60)))
    took = time.monotonic() - began
    asked = requests(slurm)
    cluster.close()
    assert 2 <= asked <= cluster.burst + took


async def test_one_who_cannot_wait_is_not_held_back(slurm: SmallSlurm) -> None:
    cluster = new_cluster(slurm, rpcs_per_second=0.05, burst=2)  # the next question in 40 s
    await cluster.snapshot()
    now = time.time()
    patient = asyncio.ensure_future(cluster.snapshot(now))
    await asyncio.sleep(0.1)
    assert not patient.done()
    urgent = await asyncio.wait_for(cluster.snapshot(now, urgent=True), 20)
    assert urgent.taken_at >= now
    assert (await asyncio.wait_for(patient, 20)).taken_at >= now  # and takes the patient along
    cluster.close()


async def test_a_caller_that_goes_away_leaves_the_answer_to_the_others(cluster: Cluster) -> None:
    now = time.time()
    first = asyncio.ensure_future(cluster.snapshot(now))
    second = asyncio.ensure_future(cluster.snapshot(now))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).taken_at >= now


async def test_slurmctld_stopped_keeps_the_last_snapshot(
    slurm: SmallSlurm, cluster: Cluster
) -> None:
    job_id = await cluster.submit(["sbatch", *SLEEP])
    await until(cluster, job_id, JobState.RUNNING)
    before = await cluster.snapshot()
    cluster.patience = 3
    slurm.stop_one("slurmctld")
    try:
        asked = time.time()
        # Slurm's commands try for ten seconds; whoever has something to show waits for three.
        during = await cluster.snapshot(asked)
        assert during.error
        for _ in range(60):
            during = await cluster.snapshot(asked)
            if "Slurm does not answer" in during.error:
                break
            await asyncio.sleep(0.5)
        assert "Unable to contact slurm controller" in during.error
        assert during.taken_at < asked and during.age > 0
        assert during.jobs[job_id].state is JobState.RUNNING
        assert during.nodes.keys() == before.nodes.keys()
        unanswered = (
            cluster.ended_job(job_id),  # silence is not an end
            cluster.submit(["sbatch", *SLEEP]),
            new_cluster(slurm).snapshot(),
        )
        answers = await asyncio.gather(*unanswered, return_exceptions=True)
        assert all(isinstance(answer, SlurmUnavailable) for answer in answers), answers
    finally:
        slurm.start_slurmctld()
    for _ in range(60):
        after = await cluster.snapshot(time.time())
        if not after.error:
            break
        await asyncio.sleep(0.5)
    assert after.error == ""
    assert after.taken_at > during.taken_at
    assert after.jobs[job_id].state is JobState.RUNNING


async def test_a_hostile_name_is_one_job_with_that_name(
    slurm: SmallSlurm, cluster: Cluster
) -> None:
    name = "x UserId=root(0)\nJobId=99 JobName=y\x1f\x1e\x1b[31m ,:|%j"
    comment = "c\n99\x1fRUNNING\x1fNone\x1froot"
    job_id = await cluster.submit(
        ["sbatch", f"--job-name={name}", f"--comment={comment}", "--hold", *SLEEP]
    )
    snapshot = await cluster.snapshot(time.time())
    assert "99" not in snapshot.jobs
    job = snapshot.jobs[job_id]
    # Newer versions of sbatch may clean a name themselves; none lets a control character through.
    assert job.name == "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    assert (job.user, job.state, job.priority) == (slurm.user, JobState.PENDING, 0)
    assert not re.search(r"[\x00-\x1f]", job.comment)


# -- jobs ----------------------------------------------------------------------------------


async def test_submit_and_cancel(slurm: SmallSlurm, cluster: Cluster) -> None:
    job_id = await cluster.submit(["sbatch", *SLEEP], user=slurm.user)
    assert job_id.isdigit()
    await until(cluster, job_id, JobState.RUNNING)
    assert await cluster.ended_job(job_id) is None
    assert await cluster.cancel(job_id, slurm.user)
    await until(cluster, job_id, JobState.CANCELLED)
    job = await ended(cluster, job_id)
    assert job.state is JobState.CANCELLED
    assert "cancelled" in end_words(job)


async def test_a_failed_job(cluster: Cluster) -> None:
    job_id = await cluster.submit(["sbatch", "--output=/dev/null", "--wrap", "exit 3"])
    await until(cluster, job_id, JobState.FAILED)
    job = await ended(cluster, job_id)
    assert (job.state, job.exit_code, job.exit_signal) == (JobState.FAILED, 3, 0)
    assert end_words(job) == "it failed with exit code 3"


async def test_a_job_out_of_memory(cluster: Cluster) -> None:
    """Slurm says FAILED by signal 9; accounting's peak memory says why."""
    command = "python3 -c 'import time; x = bytearray(400 << 20); time.sleep(60)'"
    job_id = await cluster.submit(["sbatch", "--mem=100", "--output=/dev/null", "--wrap", command])
    await until(cluster, job_id, JobState.FAILED, JobState.OUT_OF_MEMORY)
    await in_accounting(cluster, job_id, lambda one: one.peak_memory is not None)
    job = await ended(cluster, job_id)  # once: the first answer is what a person reads
    assert job.state is JobState.OUT_OF_MEMORY
    assert job.peak_memory is not None and job.peak_memory >= 100


async def test_ends_from_accounting_alone(slurm: SmallSlurm, cluster: Cluster) -> None:
    """What slurmctld has forgotten (MinJobAge) is still in the database."""
    job_id = await cluster.submit(["sbatch", "--output=/dev/null", "--wrap", "exit 4"])
    await until(cluster, job_id, JobState.FAILED)
    recorded = await in_accounting(cluster, job_id, lambda one: one.state.ended)
    assert (recorded.state, recorded.exit_code) == (JobState.FAILED, 4)
    assert recorded.user == slurm.user


async def test_a_job_that_nobody_knows_is_over(cluster: Cluster) -> None:
    job = await cluster.ended_job("999999")
    assert job is not None
    assert job.state is JobState.UNKNOWN
    assert "no longer knows" in end_words(job)


async def test_suspended_and_requeued_jobs_live(slurm: SmallSlurm, cluster: Cluster) -> None:
    job_id = await cluster.submit(["sbatch", "--requeue", *SLEEP])
    await until(cluster, job_id, JobState.RUNNING)
    slurm.run("scontrol", "suspend", job_id)
    suspended = await until(cluster, job_id, JobState.SUSPENDED)
    assert suspended.state.running and suspended.nodes
    assert await cluster.ended_job(job_id) is None
    slurm.run("scontrol", "resume", job_id)
    slurm.run("scontrol", "requeuehold", job_id)
    requeued = await until(
        cluster, job_id, JobState.PENDING, JobState.REQUEUE_HOLD, JobState.REQUEUED
    )
    assert requeued.state.pending
    assert await cluster.ended_job(job_id) is None


async def test_position_in_the_queue(cluster: Cluster) -> None:
    big = [
        await cluster.submit(
            ["sbatch", "--nodes=4", "--gpus-per-node=v100:4", "--exclusive", *SLEEP]
        )
        for _ in range(3)
    ]
    running = await until(cluster, big[0], JobState.RUNNING)
    snapshot = await cluster.snapshot(time.time())
    assert cluster.position(running, snapshot) is None
    places = [cluster.position(snapshot.jobs[job_id], snapshot) for job_id in big[1:]]
    assert sorted(places, key=str) == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus=99"], "No node of this partition has the requested resources"),
        (["--partition=nonsense"], "nonsense"),
        (["--account=nonsense"], "Invalid account"),
    ],
)
async def test_refusals(cluster: Cluster, options: list[str], words: str) -> None:
    with pytest.raises(SlurmRefused, match=words):
        await cluster.submit(["sbatch", *options, *SLEEP])


async def test_an_abandoned_submission_leaves_no_job(slurm: SmallSlurm, cluster: Cluster) -> None:
    task = asyncio.ensure_future(cluster.submit(["sbatch", "--job-name=abandoned", *SLEEP]))
    await asyncio.sleep(0)  # sbatch is on its way
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        if cluster.runner.runs["scancel"]:
            break
        await asyncio.sleep(0.05)
    assert cluster.runner.runs["sbatch"] == 1
    for _ in range(100):
        jobs = (await cluster.snapshot(time.time(), urgent=True)).jobs.values()
        (abandoned,) = [job for job in jobs if job.name == "abandoned"]
        if abandoned.state.ended:
            break
    assert abandoned.state is JobState.CANCELLED


async def test_bad_ids_never_reach_a_command(cluster: Cluster) -> None:
    for text in ("", "--user=root", "1 2", "1;2"):
        with pytest.raises(InvalidRequest):
            await cluster.cancel(text)
        with pytest.raises(InvalidRequest):
            await cluster.ended_job(text)
    with pytest.raises(InvalidRequest):
        await cluster.associations("ada,root")
    assert not cluster.runner.runs


async def test_tasks_of_an_array_that_were_cancelled_held_and_requeued(
    slurm: SmallSlurm, cluster: Cluster
) -> None:
    """As runs follow them: a task that is cancelled while it waits is nowhere any more, and the
    snapshot joins the reasons of the others."""
    array = ["sbatch", "--partition=cpu", "--array=0-4%1", "--requeue", *SLEEP]
    job_id = await cluster.submit(array)
    await until(cluster, f"{job_id}_0", JobState.RUNNING)
    slurm.run("scancel", f"{job_id}_4")
    slurm.run("scontrol", "hold", f"{job_id}_3")
    slurm.run("scontrol", "requeue", f"{job_id}_0")
    await until(cluster, f"{job_id}_1", JobState.RUNNING)
    snapshot = await cluster.snapshot(time.monotonic(), urgent=True)
    tasks = tasks_by_array(snapshot.jobs.values())[job_id]
    assert sorted(tasks) == [0, 1, 2, 3] and is_special(tasks[3])
    ran = PointKeys(0, PointState.FAILED, None, {}, {}, time.time() - 60, time.time() - 30)
    news = point_news(tasks, [ran], range(5), snapshot.taken_at)
    assert news == PointNews(again=(0,), absent=(4,))
    detailed = await cluster.array_tasks(job_id)
    assert sorted(detailed) == [0, 1, 2, 3]
    assert waiting_words(detailed[3]).startswith("Held by ")
    assert 4 not in await cluster.ended_tasks(job_id)
    assert await cluster.array_tasks("999999") == {}


# -- accounting ----------------------------------------------------------------------------


async def test_associations_are_cached(slurm: SmallSlurm, cluster: Cluster) -> None:
    answers = await asyncio.gather(*(cluster.associations(slurm.user) for _ in range(20)))
    assert cluster.runner.runs["sacctmgr"] == 1
    assert answers[0] is not None
    assert "research" in {one.account for one in answers[0]}
    assert await cluster.associations("nobody-here") == ()


async def test_expected_launches_ask_slurmdbd_once(slurm: SmallSlurm, cluster: Cluster) -> None:
    for _ in range(20):
        cluster.expect_launches()
    assert cluster._accounts._everyone.under_way
    await cluster._accounts._everyone.get()
    answer = await cluster.associations(slurm.user)
    assert answer is not None and "research" in {one.account for one in answer}
    await cluster.snapshot(qos=True)
    assert cluster.runner.runs["sacctmgr"] == 2  # the associations, and the QOS


async def test_those_who_ask_meanwhile_share_the_next_question(cluster: Cluster) -> None:
    async def ask(number: int) -> None:
        await asyncio.sleep(0.01 * (number > 0))
        assert await cluster.associations(f"nobody{number}") == ()

    await asyncio.gather(*(ask(number) for number in range(20)))
    assert cluster.runner.runs["sacctmgr"] <= 4  # one whether slurmdbd hides people


async def test_a_course_of_three_hundred_is_one_question(cluster: Cluster) -> None:
    await asyncio.gather(*(cluster.associations(f"student{number}") for number in range(300)))
    assert cluster.runner.runs["sacctmgr"] == 2  # one whether slurmdbd hides people


async def test_whether_an_account_is_there(slurm: SmallSlurm, cluster: Cluster) -> None:
    assert [await cluster.has_account("research") for _ in range(3)] == [True] * 3
    assert cluster.runner.runs["sacctmgr"] == 1  # once in associations_ttl
    assert await cluster.has_account("nobodys") is False
    assert await cluster.has_account("a,b") is False
    assert cluster.runner.runs["sacctmgr"] == 2


async def test_qos_are_read_where_asked_for(slurm: SmallSlurm, cluster: Cluster) -> None:
    slurm.run("sacctmgr", "-i", "add", "qos", "brief", "MaxWall=00:30:00")
    assert (await cluster.snapshot()).qos == {}
    slow = new_cluster(slurm, associations_ttl=3600.0)
    slow.expect_launches()
    known = (await slow.snapshot(qos=True)).qos
    assert known["brief"].max_wall == 1800
    slurm.run("sacctmgr", "-i", "delete", "qos", "brief")
    assert (await slow.snapshot(qos=True)).qos == known  # once in associations_ttl
    slow.close()


async def test_associations_outlive_slurmdbd(slurm: SmallSlurm) -> None:
    cluster = new_cluster(slurm, associations_ttl=0.0)
    known = await cluster.associations(slurm.user)
    slurm.stop_one("slurmdbd")
    try:
        assert await cluster.associations(slurm.user) == known
        with pytest.raises(SlurmUnavailable):
            await cluster.associations("someone-else")
    finally:
        slurm.start_slurmdbd()
        cluster.close()


async def test_a_site_without_accounting(tmp_path: Path) -> None:
    with started(SmallSlurm(tmp_path, accounting=False)) as plain:
        cluster = new_cluster(plain)
        assert await cluster.associations(plain.user) is None
        assert await cluster.has_account("research") is None
        assert (await cluster.snapshot(qos=True)).qos == {}
        job_id = await cluster.submit(["sbatch", "--output=/dev/null", "--wrap", "exit 5"])
        await until(cluster, job_id, JobState.FAILED)
        job = await cluster.ended_job(job_id)
        assert job is not None
        assert (job.exit_code, job.peak_memory) == (5, None)
        unknown = await cluster.ended_job("4242")
        assert unknown is not None and unknown.state is JobState.UNKNOWN
        cluster.close()


# -- the runner ----------------------------------------------------------------------------


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    hang = script(
        tmp_path / "squeue", f"echo $$ > {marker}.new; mv {marker}.new {marker}\nexec sleep 600"
    )
    runner = SlurmRunner(commands={"squeue": hang})
    for times, limit in enumerate((0.5, 5, 60), 1):
        with pytest.raises(SlurmUnavailable, match=f"within {limit:g} s "):
            await runner.run(["squeue"], timeout=limit)
        assert runner.failures["squeue"] == times
        if marker.exists():  # else it was ended before it had begun
            break
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(marker.read_text()), 0)
            await asyncio.sleep(0.1)
    runner.close()


async def test_the_environment_is_small_and_never_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HUB_SECRET", "swordfish")
    monkeypatch.setenv("SLURM_CONF", "/some/slurm.conf")
    runner = SlurmRunner(commands={"squeue": script(tmp_path / "squeue", "env")})
    logging.getLogger("traitlets").setLevel(logging.DEBUG)
    caplog.set_level(logging.DEBUG)
    output = await runner.run(["squeue"], env={"JUPYTERHUB_API_TOKEN": "mackerel"})
    assert "mackerel" in output.stdout
    assert "swordfish" not in output.stdout
    assert "SLURM_CONF=/some/slurm.conf" in output.stdout
    assert "SLURM_TIME_FORMAT=%s" in output.stdout
    assert "mackerel" not in caplog.text and "swordfish" not in caplog.text
    runner.close()


async def test_people_run_through_sudo(tmp_path: Path) -> None:
    """The words before the command, and nothing that would be exported into a job."""
    fake = script(tmp_path / "sudo", 'printf "%s " "$@"; echo; env')
    runner = SlurmRunner(sudo=[fake, "-n", "-u", "{user}"], commands={"sbatch": "/usr/bin/sbatch"})
    output = await runner.run(["sbatch", "--parsable", "a b;$(id)"], user="someone")
    assert output.stdout.splitlines()[0] == "-n -u someone /usr/bin/sbatch --parsable a b;$(id) "
    assert "SLURM_TIME_FORMAT" not in output.stdout
    runner.close()


async def test_a_failure_with_status_0_is_a_failure(tmp_path: Path) -> None:
    """sacctmgr of Slurm 26.05 ends so when slurmdbd does not answer."""
    said = Path(__file__).parents[2] / "slurm_outputs/26.05/down-slurmdbd.stderr"
    runner = SlurmRunner(commands={"sacctmgr": script(tmp_path / "s", f"cat {said} >&2")})
    cluster = Cluster(runner=runner)
    with pytest.raises(SlurmUnavailable):
        await cluster.associations("ada")
    cluster.close()


async def test_a_missing_command_is_named() -> None:
    runner = SlurmRunner()
    with pytest.raises(SlurmUnavailable, match="'no-such-command' is not installed"):
        await runner.run(["no-such-command"])
    runner.close()


# -- last, since it takes a minute from the first test on -----------------------------------


async def test_a_job_past_its_time(cluster: Cluster, past_its_time: str) -> None:
    for _ in range(150):
        if (await cluster.snapshot(time.time())).jobs[past_its_time].state.ended:
            break
        await asyncio.sleep(1)
    job = await ended(cluster, past_its_time)
    assert job.state is JobState.TIMEOUT
    assert end_words(job) == "it reached its time limit"
