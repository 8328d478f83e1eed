"""preparation_hook: when it is called, how long it may take, and what its failure says."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import InvalidRequest, NotAllowed, SlurmUnavailable, Unavailable
from portal.models.cluster.cluster import Association
from portal.models.person import Person
from spawners.form.form import LaunchForm
from spawners.host.blocking import Blocking
from spawners.host.preparation import Preparation
from spawners.host.storage import Storage
from spawners.launch.launch import launch_request, readiness

ROW = Association(user="ada", account="research")


class Cluster:
    """Associations as sacctmgr would tell them, kept until they are forgotten."""

    def __init__(self) -> None:
        self.real: tuple[Association, ...] = ()
        self.kept: tuple[Association, ...] | None = None

    async def associations(self, user: str) -> tuple[Association, ...]:
        if self.kept is None:
            self.kept = self.real
        return self.kept

    def forget(self, user: str) -> None:
        self.kept = None


def spawner(hook: Any, home: str = "/", seconds: float = 30) -> Any:
    """As much of a spawner as readiness looks at, with the real preparation, form and storage."""

    async def find_home() -> str:
        if not home:
            raise Unavailable("Nobody says where the home is.")
        return home

    return SimpleNamespace(
        user=SimpleNamespace(name="ada"),
        person=Person(name="ada"),
        preparation_hook=hook,
        preparation_timeout=seconds,
        home=find_home,
        log=logging.getLogger("hub"),
        shared=SimpleNamespace(
            cluster=Cluster(),
            form=LaunchForm(contact="the help desk", minimum_free=0),
            storage=Storage(timeout=30),
            preparation=Preparation(Blocking()),
        ),
    )


async def test_a_plain_hook_runs_beside_the_loop_and_its_work_is_seen_at_once() -> None:
    go, calls = threading.Event(), []

    def hook(who: Any) -> None:
        calls.append(who.user.name)
        assert go.wait(60)
        who.shared.cluster.real = (ROW,)

    who = spawner(hook)
    pages = [asyncio.ensure_future(readiness(who)) for _ in range(3)]
    while not calls:  # the loop turns while the hook blocks
        await asyncio.sleep(0.01)
    assert not any(page.done() for page in pages)
    go.set()
    for page in pages:
        ready = await page
        assert (list(ready.problems), ready.associations) == ([], (ROW,))
    assert calls == ["ada"]
    await readiness(who)
    assert calls == ["ada"]  # nothing is missing any more


async def test_an_async_hook_makes_a_home(tmp_path: Any) -> None:
    async def hook(who: Any) -> None:
        await asyncio.sleep(0)
        (tmp_path / "ada").mkdir()

    who = spawner(hook, home=str(tmp_path / "ada"))
    who.shared.cluster.real = (ROW,)
    assert (await readiness(who)).problems == []


async def test_nothing_is_made_while_nobody_knows_what_is_missing() -> None:
    who = spawner(lambda who: pytest.fail("called"), home="")
    who.shared.cluster.real = (ROW,)
    ready = await readiness(who)
    assert (ready.problems, ready.error) == (["Nobody says where the home is."], Unavailable)


async def test_malformed_options_make_nothing() -> None:
    with pytest.raises(InvalidRequest):
        await launch_request(spawner(lambda who: pytest.fail("called")), {"prologue": "id"})


async def failing(who: Any) -> None:
    raise NotAllowed("Sign the terms of use first: https://example.org/terms.")


def leaving(who: Any) -> None:
    raise SystemExit("password=hunter2")


def breaking(who: Any) -> None:
    raise StopIteration("password=hunter2")


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (failing, "Sign the terms of use first"),
        (leaving, "could not be prepared for a session. Please ask the help desk."),
        (breaking, "could not be prepared for a session. Please ask the help desk."),
    ],
)
async def test_a_failure_is_told(hook: Any, words: str, caplog: pytest.LogCaptureFixture) -> None:
    ready = await readiness(spawner(hook))
    assert words in ready.problems[0]
    assert "no Slurm account" in ready.problems[1]
    assert "hunter2" not in " ".join(ready.problems)
    assert ("hunter2" in caplog.text) == (hook is not failing)


async def test_a_hook_that_hangs_is_not_waited_for() -> None:
    go, calls, cancelled = threading.Event(), [], asyncio.Event()

    def hang(who: Any) -> None:
        calls.append(1)
        go.wait(60)

    async def hang_too(who: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    who = spawner(hang, seconds=0.05)
    for _ in range(2):
        assert "within 0.05 s" in (await readiness(who)).problems[0]
    assert calls == [1]  # whoever tries again waits for the same call
    go.set()
    who = spawner(hang_too, seconds=0.05)
    assert "within 0.05 s" in (await readiness(who)).problems[0]
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_accounts_that_cannot_be_read_are_not_missing_and_the_page_says_so() -> None:
    calls: list[Any] = []
    who = spawner(calls.append)

    async def refuse(user: str) -> tuple[Association, ...]:
        raise SlurmUnavailable("Slurm's accounting does not tell the portal.")

    who.shared.cluster.associations = refuse
    ready = await readiness(who)
    assert (ready.associations, list(ready.problems), ready.missing) == (None, [], False)
    assert calls == [], "nobody has to make an account that may be there"
    assert ready.unknown == (
        "Your Slurm accounts cannot be read now, so only Slurm checks whether a session "
        "may start. Slurm's accounting does not tell the portal."
    )
    view = who.shared.form.view(None, [], ready.associations, who.person, unknown=ready.unknown)
    page = who.shared.form.render(view)
    assert "Your Slurm accounts cannot be read now" in page
    assert "no Slurm account" not in page
