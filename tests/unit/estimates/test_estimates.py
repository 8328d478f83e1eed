"""When a session would start: what snapshots say, what limits say, and when Slurm is asked."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from clusters import ADA, gpu_node, job, waiting

from portal.errors import SlurmRefused, SlurmUnavailable, TooManyRequests
from portal.estimates import StartEstimates
from portal.estimates.errors import error_of, errors
from portal.launch import estimate_words as words
from portal.launch.estimate import (
    NEVER,
    Wait,
    covers,
    from_slurm,
    room_now,
    starts_now,
    usual_wait,
    without_slurm,
    woken,
)
from portal.launch.limits.running_limits import held_back
from portal.launch.nearby import candidates
from portal.launch.request import LaunchRequest
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    Job,
    Partition,
    Qos,
    Reservation,
)
from portal.models.person import Person
from portal.models.session.estimate import Basis, Estimate, Outlook
from portal.models.session.resources import Resources
from portal.slurm import Output, SlurmRunner
from portal.store import Store
from portal.store.sessions.estimates import Outcome

ROWS = (Association(user="ada", account="research", qos=("normal",), is_default_account=True),)
ENVIRONMENT = Environment(name="pytorch", title="PyTorch", kind=EnvironmentKind.VENV, path="/v")


def snapshot(*jobs: Job, full: bool = False, **more: Any) -> ClusterSnapshot:
    """gpu01 with 4 v100 (all used where ``full``), gpu02 with 2 t4; cpu01 in a partition alone."""
    nodes = [
        gpu_node("gpu01", "v100", 4, 4 if full else 0),
        gpu_node("gpu02", "t4", 2),
        gpu_node("cpu01"),
    ]
    usual: dict[str, Any] = {
        "taken_at": time.time(),
        "nodes": {one.name: one for one in nodes},
        "partitions": {
            "gpu": Partition(name="gpu", default=True, nodes=("gpu01", "gpu02")),
            "cpu": Partition(name="cpu", nodes=("cpu01",)),
        },
        "jobs": {job.id: job for job in jobs},
    }
    return ClusterSnapshot(**{**usual, **more})


def running(id: str, user: str = "ada", ends_in: float | None = 600, **more: Any) -> Job:
    ends = None if ends_in is None else time.time() + ends_in
    return job(id, user, **{"qos": "normal", "gpus": 2, "end_time": ends, **more})


def pending(id: str, **more: Any) -> Job:
    return waiting(id, **{"user": "barbara", "reason": "Resources", "gpus": 1, **more})


def asked(**more: Any) -> Resources:
    usual: dict[str, Any] = {
        "gpus": 2, "gpu_type": "v100", "cpus": 2, "memory": "4G", "time": "2:00:00",
        "partition": "gpu",
    }  # fmt: skip
    return Resources(**{**usual, **more})


class TestSnapshot:
    def test_there_is_room(self) -> None:
        now = time.time()
        assert room_now(asked(), snapshot(), now)
        assert not room_now(asked(), snapshot(full=True), now)
        assert not room_now(asked(gpu_type="t4", gpus=3), snapshot(), now)
        assert not room_now(asked(cpus=17), snapshot(), now)
        assert not room_now(asked(memory="100G"), snapshot(), now)
        assert not room_now(asked(nodes=2), snapshot(), now)
        assert not room_now(asked(partition="nope"), snapshot(), now)

    def test_only_nodes_with_the_features_count(self) -> None:
        now, told = time.time(), snapshot()
        assert not room_now(asked(constraint="nvlink"), told, now)
        one = told.nodes["gpu01"].model_copy(update={"features": ("nvlink", "ssd")})
        told = snapshot(nodes={**told.nodes, "gpu01": one})
        assert room_now(asked(constraint="nvlink&ssd"), told, now)
        assert not covers(asked(constraint="nvlink", gpus=4), asked())

    def test_a_partition_that_is_down_has_none(self) -> None:
        down = {"gpu": Partition(name="gpu", state="DOWN", nodes=("gpu01",))}
        assert not room_now(asked(), snapshot(partitions=down), time.time())

    def test_a_node_that_must_be_switched_on_first_is_no_room_now(self) -> None:
        """Slurm counts it as free: "now" is when it is up."""
        now = time.time()
        told = snapshot(nodes={"gpu01": gpu_node("gpu01", "v100", 4, state="IDLE+POWERED_DOWN")})
        slow = told.model_copy(update={"resume_seconds": 600})
        assert not room_now(asked(), told, now) and not starts_now(asked(), told, now)
        of_slurm = from_slurm(now, now)
        for estimate in (
            woken(of_slurm, asked(), slow, now),
            without_slurm(asked(), slow, [], now),
        ):
            assert (estimate.outlook, estimate.starts_at) == (Outlook.LATER, now + 600)
            assert words.sentence(estimate, now) == (
                "Starts in about 10 min. A node is switched on for it first."
            )
        # A partition may have a ResumeTimeout of its own.
        own = told.partitions["gpu"].model_copy(update={"resume_seconds": 120})
        node = told.nodes["gpu01"].model_copy(update={"partitions": ("gpu",)})
        quick = slow.model_copy(update={"partitions": {"gpu": own}, "nodes": {"gpu01": node}})
        assert woken(of_slurm, asked(), quick, now).starts_at == now + 120
        unknown = woken(of_slurm, asked(), told, now)
        assert unknown.outlook is Outlook.UNKNOWN
        assert unknown.reason.startswith("A node is switched on for it first. How long")
        awake = snapshot(resume_seconds=600)
        assert woken(of_slurm, asked(), awake, now) is of_slurm
        taken = snapshot(full=True, resume_seconds=600)
        assert woken(of_slurm, asked(), taken, now) is of_slurm, "Slurm knows of what frees it"
        later = from_slurm(now + 900, now)
        assert woken(later, asked(), slow, now) is later, "Slurm has counted more than the node"

    def test_a_session_without_a_time_has_the_partitions(self) -> None:
        now = time.time()
        soon = Reservation(
            name="course", start_time=now + 3600, end_time=now + 7200, nodes=("gpu01",)
        )
        for rules, free in (
            ({"default_time": 1800, "max_time": 86400}, True),
            ({"default_time": 7200}, False),
            ({"max_time": 86400}, False),  # slurm.conf(5): without DefaultTime, MaxTime
            ({}, False),
        ):
            partition = Partition(name="gpu", nodes=("gpu01",), **rules)
            told = snapshot(partitions={"gpu": partition}, reservations={"course": soon})
            assert room_now(asked(time=None), told, now) is free, rules

    def test_a_reservation_that_comes_within_the_time_takes_it(self) -> None:
        now = time.time()
        held = Reservation(
            name="course", start_time=now + 3600, end_time=now + 7200, nodes=("gpu01",)
        )
        told = snapshot(reservations={"course": held})
        assert not room_now(asked(), told, now)
        assert room_now(asked(time="0:30:00"), told, now)
        assert not room_now(asked(reservation="course"), told, now)
        assert room_now(asked(reservation="course"), told, now + 3601)

    def test_who_waits_goes_first(self) -> None:
        now = time.time()
        assert starts_now(asked(), snapshot(), now)
        assert not starts_now(asked(), snapshot(pending("1")), now)
        assert starts_now(asked(), snapshot(pending("1", priority=0)), now)
        assert starts_now(asked(), snapshot(pending("1", reason="Dependency")), now)
        assert starts_now(asked(), snapshot(pending("1", partition="cpu")), now)

    def test_never_now_while_somebody_waits(self) -> None:
        now = time.time()
        told = without_slurm(asked(), snapshot(pending("1", start_time=now + 900)), [], now)
        assert (told.outlook, told.basis, told.starts_at) == (Outlook.LATER, Basis.QUEUE, now + 900)
        waits = [Wait("gpu", 2, "v100", seconds) for seconds in (60, 600, 6000)]
        told = without_slurm(asked(), snapshot(full=True), waits, now)
        assert (told.basis, told.starts_at) == (Basis.WAITS, now + 600)
        told = without_slurm(asked(), snapshot(full=True), waits[:2], now)
        assert told.outlook is Outlook.UNKNOWN and "Start time unknown" in told.reason

    def test_the_usual_wait_is_that_of_the_like(self) -> None:
        waits = [Wait("gpu", 1, "v100", 10.0)] * 3 + [Wait("gpu", 4, "v100", 5000.0)] * 2
        assert usual_wait(asked(gpus=4), waits) == 10
        assert usual_wait(asked(gpus=4), [*waits, Wait("gpu", 4, "v100", 6000.0)]) == 5000
        assert usual_wait(asked(gpu_type="t4"), waits) is None
        assert usual_wait(asked(partition="cpu", gpus=0), waits) is None

    def test_jobs_without_an_end(self) -> None:
        told = from_slurm(1000 + NEVER + 1, 1000)
        assert told.outlook is Outlook.UNKNOWN and "no end time" in told.reason
        assert from_slurm(1002, 1000).outlook is Outlook.NOW
        assert from_slurm(1060, 1000).outlook is Outlook.LATER


class TestLimits:
    def test_max_jobs(self) -> None:
        rows = (ROWS[0].model_copy(update={"max_jobs": 2}),)
        one = running("1", ends_in=600)
        assert held_back(asked(), "ada", snapshot(one), rows) is None
        both = snapshot(one, running("2", ends_in=300))
        held = held_back(asked(), "ada", both, rows)
        assert held and "lets you run 2 jobs" in held.reason
        assert held.until == both.jobs["2"].end_time
        assert held_back(asked(), "barbara", both, rows) is None
        endless = held_back(
            asked(), "ada", snapshot(*[running(n, ends_in=None) for n in "12"]), rows
        )
        assert endless and endless.until is None

    @pytest.mark.parametrize("whose", ["user", "account", "group"])
    def test_tres_of_a_qos(self, whose: str) -> None:
        qos = {"normal": Qos(name="normal", max_tres={whose: {"gres/gpu": 4}})}
        mine, other = running("1", ends_in=600), running("2", "barbara", ends_in=300)
        told = snapshot(mine, other, qos=qos)
        held = held_back(asked(), "ada", told, ROWS)
        if whose == "user":
            assert held is None  # 2 of 4 are in use, and 2 are asked for
        else:
            assert held and held.until == other.end_time and "4 GPUs" in held.reason
        assert held_back(asked(gpus=0, gpu_type=None), "ada", told, ROWS) is None
        held = held_back(asked(gpus=3), "ada", told, ROWS)
        assert held and held.until is not None

    def test_the_qos_of_the_partition_counts_what_is_in_it(self) -> None:
        whole = snapshot(
            running("1", "barbara", qos="other"),
            qos={"gpu-limits": Qos(name="gpu-limits", max_tres={"group": {"gres/gpu": 3}})},
        )
        gpu = whole.partitions["gpu"].model_copy(update={"qos": "gpu-limits"})
        whole = whole.model_copy(update={"partitions": {**whole.partitions, "gpu": gpu}})
        held = held_back(asked(), "ada", whole, ROWS)
        assert held and "everyone together" in held.reason

    def test_a_job_that_is_held_back_already(self) -> None:
        waits = pending("7", user="ada", account="research", qos="normal", reason="AssocGrpGRES")
        held = held_back(asked(), "ada", snapshot(waits), ROWS)
        assert held and held.until is None and "Your job 7" in held.reason
        assert held_back(asked(), "barbara", snapshot(waits), ROWS) is None
        assert held_back(asked(gpus=0, gpu_type=None), "ada", snapshot(waits), ROWS) is None
        assert held_back(asked(), "ada", snapshot(waits), None) is None


class TestNearby:
    def test_only_what_the_policy_allows_and_the_environment_runs_on(self) -> None:
        person = Person(name="ada")
        only = ENVIRONMENT.model_copy(update={"gpu_types": ("v100",)})
        for environment, types in ((ENVIRONMENT, ["t4"]), (only, [])):
            request = LaunchRequest(environment=environment, resources=asked())
            found = candidates(request, person, snapshot(), ROWS)
            assert [one.changes["gpu_type"] for one in found if one.kind == "gpu_type"] == types
            assert [one.changes for one in found if one.kind == "gpus"] == [{"gpus": 1}]
            assert not [one for one in found if one.kind == "partition"]  # cpu has no GPUs
            assert [one.changes for one in found if one.kind == "time"] == [{"time": "1:00:00"}]

    def test_two_t4_only(self) -> None:
        request = LaunchRequest(environment=ENVIRONMENT, resources=asked(gpus=4))
        found = candidates(request, Person(name="ada"), snapshot(), ROWS)
        assert [one.kind for one in found].count("gpus") == 3
        assert "gpu_type" not in [one.kind for one in found]  # no node has 4 t4


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "about 1 min"),
        (40, "about 1 min"),
        (120, "about 2 min"),
        (26 * 60, "about 25 min"),
        (58 * 60, "about 1 h"),
        (3.4 * 3600, "about 3 h"),
        (30 * 3600, "more than 1 d"),
        (3.5 * 86400, "more than 3 d"),
        (30 * 86400, "more than 7 d"),
    ],
)
def test_waits_in_words(seconds: float, said: str) -> None:
    assert words.about(seconds) == said


def test_an_answer_in_words() -> None:
    later = Estimate(outlook=Outlook.LATER, starts_at=1500, basis=Basis.SLURM, made_at=0)
    assert words.sentence(later, 0) == "Starts in about 25 min."
    unknown = Estimate(outlook=Outlook.UNKNOWN, made_at=0)
    assert words.sentence(unknown, 0) == "Start time unknown."


# -- the estimator ----------------------------------------------------------------------------


class Slurm(SlurmRunner):
    """Answers --test-only with ``start`` seconds from now, or raises it."""

    def __init__(self, start: float | Exception = 0.0, takes: float = 0.0) -> None:
        super().__init__()
        self.start, self.takes = start, takes
        self.says = (
            "sbatch: Job 7 to start at {at} using 1 processors on nodes gpu01 in partition gpu"
        )
        self.asked: list[tuple[list[str], dict[str, Any]]] = []

    async def run(self, argv: Any, **how: Any) -> Output:
        assert argv[:2] == ["sbatch", "--test-only"]
        self.asked.append((argv, how))
        await asyncio.sleep(self.takes)
        if isinstance(self.start, Exception):
            raise self.start
        at = int(time.time() + self.start)
        return Output("", self.says.format(at=at) + "\n", 0)


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite")
    await store.upgrade()
    yield store
    await store.close()


def request(**more: Any) -> LaunchRequest:
    return LaunchRequest(environment=ENVIRONMENT, resources=asked(**more))


def estimator(slurm: Slurm, store: Store, **more: Any) -> StartEstimates:
    return StartEstimates(runner=slurm, store=store, **{"queries_per_second": 100.0, **more})


async def test_slurm_is_asked_once_for_all_who_ask_the_same(store: Store) -> None:
    slurm = Slurm(1500, takes=0.05)
    made = estimator(slurm, store)
    people = [Person(name=f"user{number}") for number in range(20)]
    answers = await asyncio.gather(
        *(made.answer(request(), one, snapshot(full=True), ROWS) for one in people)
    )
    assert {one.words for one in answers} == {"Starts in about 25 min."}
    mine = [argv for argv, _ in slurm.asked if "--gres=gpu:v100:2" in argv]
    assert len([argv for argv in mine if "--time=2:00:00" in argv]) == 1
    how = slurm.asked[0][1]
    assert how["user"] == "user0" and how["env"] == {"SLURM_TIME_FORMAT": "%s"}


async def test_the_budget_is_kept_and_the_rest_is_answered_without_slurm(store: Store) -> None:
    slurm = Slurm(0)
    made = estimator(slurm, store, queries_per_second=0.01)
    for cpus in range(1, 15):
        answer = await made.answer(request(cpus=cpus), ADA, snapshot(), ROWS)
        assert answer.outlook is Outlook.NOW
    assert len(slurm.asked) == 4
    assert (made.answers["slurm"], made.answers["snapshot"]) == (4, 10)


async def test_slow_answers_make_questions_rare(store: Store) -> None:
    slurm = Slurm(0, takes=0.3)
    made = estimator(slurm, store, busy_share=0.01)
    for cpus in range(1, 15):
        await made.estimate(request(cpus=cpus), "ada", snapshot(), ROWS)
    assert 0 < len(slurm.asked) <= 4  # 1 s in all, of fourteen that were wanted


async def test_nearby_choices_that_start_now(store: Store) -> None:
    made = estimator(Slurm(1500), store, ask_slurm=False)
    answer = await made.answer(request(), ADA, snapshot(full=True), ROWS)
    assert answer.outlook is Outlook.UNKNOWN
    assert [(one.label, one.words, one.changes) for one in answer.nearby] == [
        ("t4", "starts now", {"gpu_type": "t4"})
    ]


async def test_an_old_now_is_not_repeated_when_it_is_taken(store: Store) -> None:
    slurm = Slurm(0)
    made = estimator(slurm, store)
    assert (await made.estimate(request(), "ada", snapshot(), ROWS)).outlook is Outlook.NOW
    slurm.start = 900
    later = snapshot(full=True, taken_at=time.time() + 1)
    assert (await made.estimate(request(), "ada", later, ROWS)).outlook is Outlook.LATER


async def test_slurm_that_does_not_answer_is_never_now(store: Store) -> None:
    slurm = Slurm(SlurmUnavailable("Slurm does not answer: connect failure."))
    made = estimator(slurm, store)
    for told in (snapshot(), snapshot(error="away"), snapshot(taken_at=time.time() - 300)):
        answer = await made.answer(request(), ADA, told, ROWS)
        assert answer.outlook is Outlook.UNKNOWN and "does not answer" in answer.words
        assert answer.nearby == ()
    assert len(slurm.asked) == 1  # it is left alone for a while


async def test_an_answer_that_is_not_understood_is_logged_once_with_its_text(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """And costs one job id, not one a question; what is free is said all the same."""
    slurm = Slurm(1500)
    slurm.says = "sbatch: Job 7 may begin at {at}"
    made = estimator(slurm, store)
    made.log = logging.getLogger("estimates")
    for cpus in range(1, 6):
        told = await made.answer(request(cpus=cpus), ADA, snapshot(full=True), ROWS)
        assert told.outlook is Outlook.UNKNOWN
    assert (await made.answer(request(), ADA, snapshot(), ROWS)).outlook is Outlook.NOW
    assert len(slurm.asked) == 1
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 and "sbatch: Job 7 may begin at" in lines[0]


async def test_the_sentence_of_26_05_is_understood(store: Store) -> None:
    slurm = Slurm(1500)
    slurm.says = (
        "sbatch: Job 7 to start at {at} a using 1 processors on nodes gpu01 in partition gpu"
    )
    told = await estimator(slurm, store).answer(request(), ADA, snapshot(full=True), ROWS)
    assert told.words.startswith("Starts in about 25 min.")


async def test_a_late_answer_is_kept(store: Store) -> None:
    slurm = Slurm(1500, takes=0.3)
    made = estimator(slurm, store, patience=0.05)
    first = await made.estimate(request(), "ada", snapshot(full=True), ROWS)
    assert first.basis is not Basis.SLURM
    for _ in range(100):
        found = await made.estimate(request(), "ada", snapshot(full=True), ROWS)
        if found.basis is Basis.SLURM:
            break
        await asyncio.sleep(0.02)
    assert found.basis is Basis.SLURM and len(slurm.asked) == 1


async def test_a_refusal_is_for_the_one_who_was_refused(store: Store) -> None:
    slurm = Slurm(SlurmRefused("Slurm refused: Job violates accounting/QOS policy."))
    made = estimator(slurm, store)
    answer = await made.answer(request(), ADA, snapshot(), ROWS)
    assert answer.outlook is Outlook.REFUSED and "accounting/QOS policy" in answer.words
    slurm.start = 0.0
    other = await made.answer(request(), Person(name="barbara"), snapshot(), ROWS)
    assert other.outlook is Outlook.NOW
    again = await made.answer(request(), ADA, snapshot(), ROWS)
    assert again.outlook is Outlook.NOW  # the newer answer is for everyone


async def test_who_asked_at_the_same_moment_is_not_refused_too(store: Store) -> None:
    slurm = Slurm(SlurmRefused("Slurm refused: AssocMaxSubmitJobLimit."), takes=0.05)
    made = estimator(slurm, store)
    both = [made.estimate(request(), name, snapshot(), ROWS) for name in ("ada", "barbara")]
    mine, other = await asyncio.gather(*both)
    assert len(slurm.asked) == 1
    assert (mine.outlook, other.outlook) == (Outlook.REFUSED, Outlook.NOW)


async def test_no_node_in_service_is_no_refusal(store: Store) -> None:
    slurm = Slurm(SlurmRefused("Slurm refused: Requested node configuration is not available."))
    answer = await estimator(slurm, store).answer(request(), ADA, snapshot(), ROWS)
    assert answer.outlook is Outlook.UNKNOWN and "in service" in answer.words


async def test_an_answer_for_more_holds_for_less(store: Store) -> None:
    slurm = Slurm(1500)
    made = estimator(slurm, store)
    await made.estimate(request(gpus=4), "ada", snapshot(full=True), ROWS)
    made.ask_slurm = False
    less = await made.estimate(request(gpus=2, time="1:00:00"), "ada", snapshot(full=True), ROWS)
    assert (less.outlook, less.basis) == (Outlook.LATER, Basis.LARGER)
    assert words.source(less).startswith("Slurm's estimate for a larger request")
    for more in ({"cpus": 3}, {"time": "3:00:00"}, {"memory": "5G"}, {"gpu_type": "t4", "gpus": 3}):
        found = await made.estimate(request(**more), "ada", snapshot(full=True), ROWS)
        assert found.basis is not Basis.LARGER, more


async def test_a_job_that_can_never_start_does_not_hold_up_the_others(store: Store) -> None:
    """Slurm 22.05 counts it as if it did (slurm_outputs/22.05/test-only-behind.stderr)."""
    made = estimator(Slurm(58 * 86_400), store)
    never = pending("1", reason="PartitionTimeLimit")
    assert (await made.answer(request(), ADA, snapshot(never), ROWS)).basis is Basis.SNAPSHOT
    told = await made.answer(request(), ADA, snapshot(never, full=True), ROWS)
    assert told.outlook is Outlook.LATER


async def test_a_limit_of_the_person_outweighs_slurms_now(store: Store) -> None:
    rows = (ROWS[0].model_copy(update={"max_jobs": 1}),)
    made = estimator(Slurm(0), store)
    answer = await made.answer(request(), ADA, snapshot(running("1", ends_in=1500)), rows)
    assert answer.outlook is Outlook.LATER and answer.basis is Basis.LIMIT
    assert answer.words.startswith("Starts in about 25 min. Your account 'research'")


async def test_one_person_may_not_ask_without_end(store: Store) -> None:
    made = estimator(Slurm(0), store, per_person=0.1)
    with pytest.raises(TooManyRequests):
        for _ in range(30):
            made.admit("ada")
    made.admit("barbara")


def test_errors_by_partition_and_basis() -> None:
    gpu, cpu = {"partition": "gpu"}, {"partition": "cpu"}
    outcomes = [
        Outcome(gpu, "slurm", 1000, 999, 1005),  # said "now"
        Outcome(gpu, "slurm", 1000, 2000, 1400),  # 600 s early
        Outcome(gpu, "slurm", 1000, 1500, 4500),
        Outcome(cpu, "unknown", 1000, None, 1100),
    ]
    first, second = errors(outcomes)
    assert (first.partition, first.basis, first.sessions, first.unknown) == ("gpu", "slurm", 3, 0)
    assert (first.median, first.median_absolute) == (5, 600)
    assert first.within_ten_minutes == pytest.approx(2 / 3)
    assert (second.sessions, second.unknown, second.median) == (1, 1, None)
    assert error_of(outcomes).sessions == 4 and error_of([]).sessions == 0
