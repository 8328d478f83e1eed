"""Collection of benchmarks: results of added runs, their renewal with new versions, and mail about
what has become worse."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import pytest

from portal.errors import HubUnavailable, NotAllowed, SlurmUnavailable
from portal.models.catalog.catalog import Origin
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.models.cluster.cluster import Job
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.run_logged import Logged
from portal.notices.post import Mail
from portal.store import Store
from portal.work.benchmarks import collector as module
from portal.work.benchmarks.collector import BenchmarkCollector
from portal.work.benchmarks.results import COLUMNS, digests
from portal.work.benchmarks.tables import BenchmarkResultTable, BenchmarkRun, BenchmarkRunTable
from portal.work.run.tables.logged import RunLoggedTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

STARTERS = Path(__file__).resolve().parents[3] / "deploy/environments/starters"
DIGEST = digests(STARTERS)["throughput"]
LOG = logging.getLogger("portal-test")


def a_run(id_: str = "r1", **more: Any) -> Run:
    values: dict[str, Any] = {
        "id": hashlib.sha256(id_.encode()).hexdigest()[:20],
        "name": id_,
        "source": "throughput.py",
        "folder": f"/home/ada/runs/{id_}",
        "points": 1,
        "user": "ada",
        "server": f"run-{id_}",
        "environment": "pytorch",
        "version": 1,
        "created_at": 1.0,
        "job_id": "12",
    }
    return Run(**{**values, **more})


class Slurm:
    """Accounting, and what slurmctld still has."""

    def __init__(self) -> None:
        self.away = False
        self.ended: dict[int, Job] = {0: Job(id="12_0", gpus=2, gpu_type="v100", nodes=("gpu01",))}
        self.present: dict[int, Job] = {}

    async def ended_tasks(self, job_id: str) -> dict[int, Job]:
        if self.away:
            raise SlurmUnavailable("slurmdbd does not answer.")
        return self.ended

    async def array_tasks(self, job_id: str) -> dict[int, Job]:
        return self.present


class Site:
    """A collector with a fake Slurm, Hub and mail server."""

    def __init__(self, store: Store) -> None:
        self.store, self.slurm = store, Slurm()
        self.repeated: list[tuple[str, int, str]] = []
        self.refusal: Exception | None = None
        self.known = True
        self.mails: list[Mail] = []
        self.simulated = False
        # As a MailQueue.
        self.on, self.pages, self.outcome = True, "https://gpu.test/services/portal/", ""
        me: Any = self
        slurm: Any = self.slurm
        self.collector = BenchmarkCollector(
            store, slurm, me, lambda: me, me, LOG, simulated=lambda: self.simulated
        )

    async def may_log_in(self, user: str) -> bool:
        return self.known

    async def start(self, user: str, original: Run, *, version: int, digest: str, id_: str) -> Run:
        if self.refusal:
            raise self.refusal
        self.repeated.append((original.name, version, digest))
        new = a_run(f"again{version}", version=version).model_copy(update={"id": id_})
        await self.store.table(RunTable).add_run(new)
        return new

    def waits(self, key: str) -> bool:
        return False

    async def send(self, mail: Mail, now: float) -> str | None:
        self.mails.append(mail)
        return self.outcome

    async def add(self, run: Run, **more: Any) -> None:
        """Add a run as a user does, which is there already or not."""
        if await self.store.table(RunTable).get(run.user, run.id) is None:
            await self.store.table(RunTable).add_run(run)
        added = BenchmarkRun(
            user=run.user, run=run.id, name=run.name, environment=run.environment,
            added_at=run.created_at, version=run.version, **more,
        )  # fmt: skip
        await self.store.table(BenchmarkRunTable).add_run(added)

    async def end(
        self,
        run: Run,
        value: float = 800.0,
        *,
        digest: str = DIGEST,
        state: PointState = PointState.SUCCEEDED,
        gpus: int = 2,
    ) -> None:
        """End a run whose point has logged this value."""
        point = RunPoint(number=0, state=state, attempt=1, ended_at=9.0)
        await self.store.table(RunPointTable).save([((run.user, run.id), point)])
        row = ("training", value, "images/s", gpus, "precision=fp16", "fp16", 2.454e10, 0.0)
        logged = Logged(tables={f"benchmark throughput {digest}": (COLUMNS, row)})
        await self.store.table(RunLoggedTable).save((run.user, run.id), 0, 1, logged)
        await self.store.table(RunTable).end(run.user, run.id, 10.0)

    async def taken(self, run: Run) -> BenchmarkRun:
        await self.collector.collect_due()
        runs = {each.run: each for each in await self.store.table(BenchmarkRunTable).newest()}
        return runs[run.id]

    async def values(self) -> dict[int, float]:
        found, _ = await self.store.table(BenchmarkResultTable).find({"pytorch"}, wanted={})
        return {result.version: result.value for result in found}

    async def publish(self, image: str = "/images/new.sif") -> None:
        environment = Environment.model_validate(
            {"name": "pytorch", "title": "PyTorch", "kind": "container", "image": image}
        )
        await self.store.versions.add_version(
            environment, author="grace", at=5.0, origin=Origin.FILE,
            state=EnvironmentState.READY, published_at=5.0,
        )  # fmt: skip


@pytest.fixture
def site(store: Store) -> Site:
    return Site(store)


async def test_results_are_read_when_the_run_has_ended(site: Site) -> None:
    run = a_run()
    await site.add(run)
    assert (await site.taken(run)).taken_at is None
    await site.end(run)
    assert (await site.taken(run)).problem == ""
    (result,), total = await site.store.table(BenchmarkResultTable).find({"pytorch"}, wanted={})
    assert total == 1
    assert (result.value, result.gpu_type, result.gpus, result.nodes) == (800.0, "v100", 2, "gpu01")
    assert (result.version, result.before, result.at) == (1, None, 9.0)
    # Those of environments that a user does not see are not the user's.
    assert await site.store.table(BenchmarkResultTable).find({"other"}, wanted={}) == ([], 0)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ({"digest": "0" * 16}, "executed another 'throughput' than this version"),
        ({"state": PointState.FAILED}, "No point that succeeded has results"),
        ({"gpus": 3}, "3 GPUs; its job had 2"),
    ],
)
async def test_what_cannot_be_believed_is_not_taken(
    site: Site, ended: dict[str, Any], words: str
) -> None:
    run = a_run()
    await site.add(run)
    await site.end(run, **ended)
    taken = await site.taken(run)
    assert words in taken.problem and taken.taken_at
    assert await site.values() == {}


async def test_without_accounting_slurmctld_knows_for_a_while(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOKS", 3)
    first, second = a_run("r1"), a_run("r2")
    site.slurm.present, site.slurm.ended = site.slurm.ended, {}
    await site.add(first)
    await site.end(first)
    assert (await site.taken(first)).problem == ""
    site.slurm.present = {}
    await site.add(second)
    await site.end(second)
    assert (await site.taken(second)).taken_at is None, "accounting may be late"
    await site.collector.collect_due()
    assert "Slurm no longer knows the run's jobs" in (await site.taken(second)).problem


async def test_an_outage_of_slurm_loses_no_results(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOKS", 3)
    run, known = a_run("r1"), a_run("r2")
    await site.add(run)
    await site.end(run)
    site.slurm.away = True
    for _ in range(5):
        assert (await site.taken(run)).taken_at is None
    site.slurm.present = site.slurm.ended
    await site.add(known)
    await site.end(known)
    assert (await site.taken(known)).problem == "", "slurmctld answers, although slurmdbd does not"
    assert (await site.taken(run)).problem == ""


async def test_a_run_that_cannot_be_read_holds_up_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, run = a_run("r1"), a_run("r2")
    for each in (damaged, run):
        await site.add(each)
        await site.end(each)
    results = BenchmarkCollector._results

    async def broken(self: Any, of: Run, jobs: Any) -> Any:
        if of.id == damaged.id:
            raise ValueError("a damaged row")
        return await results(self, of, jobs)

    monkeypatch.setattr(BenchmarkCollector, "_results", broken)
    assert (await site.taken(run)).problem == ""
    assert "could not be read" in (await site.taken(damaged)).problem


async def test_a_deleted_run_has_no_results(site: Site) -> None:
    run = a_run()
    await site.add(run)
    await site.store.table(RunTable).remove(run.user, run.id)
    assert "was deleted" in (await site.taken(run)).problem


async def test_a_new_version_renews_a_run_once_and_a_fall_is_told_once(site: Site) -> None:
    run = a_run()
    await site.add(run, renew=True)
    await site.end(run)
    await site.publish()
    await site.taken(run)
    assert site.repeated == [], "version 1 is that of the run"
    await site.publish("/images/newer.sif")
    await site.collector.collect_due()
    await site.collector.collect_due()
    assert site.repeated == [("r1", 2, "")]
    newest, _ = await site.store.table(RunTable).of_user("ada", limit=9)
    (again,) = (each for each in newest if each.name == "again2")
    await site.end(again, 700.0)
    taken = await site.taken(again)
    assert (taken.origin, taken.version, taken.renew) == (run.id, 2, False)
    assert taken.falls == ("training (precision=fp16): 700 images/s, before 800, which is 12% "
                           "worse.",)  # fmt: skip
    assert await site.values() == {1: 800.0, 2: 700.0}
    await site.collector.collect_due()
    (mail,) = site.mails
    assert (mail.user, mail.subject) == ("ada", "Benchmark: 1 result of 'again2' fell")
    assert "in version 2 of pytorch fell by 10% or more" in mail.paragraphs[0]
    assert mail.paragraphs[-1].endswith("https://gpu.test/services/portal/benchmarks")


async def test_mail_is_tried_until_the_server_has_it(site: Site) -> None:
    runs = [a_run("r1"), a_run("r2")]
    for run, value in zip(runs, (800.0, 500.0), strict=True):
        await site.add(run)
        await site.end(run, value)
        await site.taken(run)
    site.outcome = None  # type: ignore[assignment]
    site.mails.clear()
    await site.store.table(BenchmarkRunTable).change(await site.taken(runs[1]), told_at=None)
    await site.collector.collect_due()
    await site.collector.collect_due()
    assert len(site.mails) == 2 and len({mail.key for mail in site.mails}) == 1
    site.on = False
    await site.collector.collect_due()
    assert len(site.mails) == 2


class Killed(BaseException):
    """End of the service."""


@pytest.mark.parametrize("at", ["start", "add_run", "change"])
async def test_a_service_that_is_killed_repeats_a_run_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Whatever was the last that it did: the next one starts nothing twice, and forgets nothing."""
    run = a_run()
    await site.add(run, renew=True)
    await site.end(run)
    await site.publish()
    await site.taken(run)
    await site.publish("/images/newer.sif")
    owner: Any = Site if at == "start" else BenchmarkRunTable
    done = getattr(owner, at)

    async def last(*given: Any, **more: Any) -> None:
        await done(*given, **more)
        raise Killed

    with monkeypatch.context() as killed, pytest.raises(Killed):
        killed.setattr(owner, at, last)
        await site.collector.collect_due()
    await site.collector.collect_due()
    await site.collector.collect_due()
    assert site.repeated == [("r1", 2, "")]
    again, first = await site.store.table(BenchmarkRunTable).newest()
    if again.run == run.id:
        again, first = first, again
    assert (first.version, first.problem, again.origin, again.version) == (2, "", run.id, 2)


async def test_a_renewal_that_is_refused_says_why(site: Site) -> None:
    run = a_run()
    await site.add(run, renew=True)
    await site.end(run)
    await site.publish()
    await site.publish("/images/newer.sif")
    site.refusal = HubUnavailable("The Hub does not answer.")
    assert (await site.taken(run)).version == 1, "it is tried again"
    site.refusal = NotAllowed("Your account is closed.")
    taken = await site.taken(run)
    assert taken.problem == "Not repeated with version 2. Your account is closed."
    site.refusal = None
    await site.collector.collect_due()
    assert site.repeated == [], "a refusal is final for this version"
    site.known = False
    await site.publish("/images/newest.sif")
    assert "'ada' can no longer log in" in (await site.taken(run)).problem


async def test_a_removed_run_takes_its_repetitions_along(site: Site) -> None:
    run, other = a_run("r1"), a_run("other")
    for each in (run, other):
        await site.add(each)
        await site.end(each)
    again = a_run("r2", version=2)
    await site.add(again, origin=run.id)
    await site.end(again)
    await site.collector.collect_due()
    assert set(await site.values()) == {1, 2}
    assert await site.store.table(BenchmarkRunTable).remove("ada", run.id) == 2
    left = await site.store.table(BenchmarkRunTable).newest()
    assert [each.run for each in left] == [other.id]
    assert set(await site.values()) == {1}
    assert await site.store.table(BenchmarkRunTable).remove("barbara", other.id) == 0
