"""The service's view of moves: one question serves everybody, and none where nothing moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from session_records import recorded

from portal.errors import Conflict, HubUnavailable
from portal.models.cluster.cluster import Job
from portal.models.session.move import MoveState
from portal.sessions import moves
from portal.sessions.moves import Moves, options_now, options_of

ADA = recorded(id="s1", user="ada", submitted_at=1.0, environment="base", options={"gpus": 0})


def move(state: str = "queued", job_id: str = "8") -> dict[str, Any]:
    return {"state": state, "options": {"gpus": 2}, "job_id": job_id, "asked_at": 5.0}


class Hub:
    """Answers as the Hub; ``now`` is what it says to the next question."""

    def __init__(self) -> None:
        self.asked = 0
        self.now: list[dict[str, Any]] | Exception = []
        self.begun: list[tuple[Any, ...]] = []

    async def moves(self) -> list[dict[str, Any]]:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    async def move(self, user: str, server: str) -> dict[str, Any]:
        self.asked += 1
        await asyncio.sleep(0)
        return {"move": None, "busy": ["train.ipynb"]}

    async def begin_move(
        self, user: str, server: str, options: Mapping[str, Any], *, on_behalf_of: str
    ) -> dict[str, Any]:
        self.begun.append((user, server, dict(options), on_behalf_of))
        return move()

    async def cancel_move(self, user: str, server: str, *, on_behalf_of: str) -> dict[str, Any]:
        raise Conflict("This session's resources are not being changed.")


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def known(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Moves:
    monkeypatch.setattr(moves, "_WHILE_LIVE", 0.02)
    monkeypatch.setattr(moves, "_FAILED", 0.02)
    found: Any = hub
    return Moves(found, logging.getLogger("test"))


async def until(check: Any) -> None:
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.005)


async def test_one_question_at_the_start_and_none_while_nothing_moves(
    hub: Hub, known: Moves
) -> None:
    for _ in range(100):
        assert known.move_of("s1") is None
    await until(lambda: hub.asked == 1)
    await asyncio.sleep(0.1)
    for _ in range(100):
        known.move_of("s1")
    await asyncio.sleep(0.05)
    assert hub.asked == 1


async def test_what_a_new_service_did_not_ask_for_itself_is_found(hub: Hub, known: Moves) -> None:
    hub.now = [{"session": "s1", "move": move()}]
    assert known.move_of("s1") is None
    await until(lambda: known.move_of("s1"))
    assert known.expects("8")
    assert not known.expects("9")


async def test_a_move_is_followed_to_its_end(hub: Hub, known: Moves) -> None:
    begun = await known.begin(ADA, {"gpus": 2}, "ada")
    assert begun.state is MoveState.QUEUED
    assert hub.begun == [("ada", "", {"gpus": 2}, "ada")]
    assert known.expects("8")
    hub.now = [{"session": "s2", "move": move("done")}]  # a session that has moved is another one
    await until(lambda: known.move_of("s2"))
    assert known.move_of("s1") is None
    assert not known.expects("8")


async def test_while_the_hub_is_away_the_last_word_stays(hub: Hub, known: Moves) -> None:
    await known.begin(ADA, {"gpus": 2}, "ada")
    hub.now = HubUnavailable("The Hub does not answer.")
    await until(lambda: known.move_of("s1") and hub.asked > 2)
    assert known.expects("8")
    hub.now = []
    await until(lambda: known.move_of("s1") is None)


@pytest.mark.parametrize("said", [[{}], ["x"], [{"session": "s1", "move": {"state": "?"}}]])
async def test_an_answer_that_cannot_be_read_changes_nothing(
    hub: Hub, known: Moves, said: Any
) -> None:
    await known.begin(ADA, {"gpus": 2}, "ada")
    hub.now = said
    await until(lambda: known.move_of("s1") and hub.asked)
    await asyncio.sleep(0.05)
    assert known.expects("8")


async def test_what_is_known_before(hub: Hub, known: Moves) -> None:
    before = await known.before(ADA)
    assert before.busy == ("train.ipynb",)
    assert before.options == {"environment": "base", "gpus": 0}
    with pytest.raises(Conflict):
        await known.cancel(ADA, "ada")


async def test_a_silent_server_is_asked_once_at_a_time(hub: Hub, known: Moves) -> None:
    other = ADA.model_copy(update={"id": "s2"})
    found = await asyncio.gather(*(known.before(one) for one in (ADA, ADA, ADA, other)))
    assert [one.busy for one in found] == [("train.ipynb",)] * 4
    assert hub.asked == 2  # one for each session
    await known.before(ADA)
    assert hub.asked == 3


def test_another_size_is_not_bound_to_a_partition_that_nobody_named() -> None:
    record = ADA.model_copy(update={"options": {"gpus": 0, "partition": "cpu"}})
    assert options_of(record) == {"environment": "base", "gpus": 0, "partition": "cpu"}
    automatic = record.model_copy(update={"partition_automatic": True})
    assert options_of(automatic) == {"environment": "base", "gpus": 0}


def test_a_change_begins_with_what_the_job_holds_now() -> None:
    record = ADA.model_copy(update={"options": {"gpus": 1, "cpus": 1, "time": "1:00:00"}})
    held = {"cpus": 2, "memory": 4096, "gpus": 1, "gpu_type": "v100", "time_limit": 5400}
    assert options_now(record, Job(id="8", nodes=("gpu01",), **held)) == {
        "environment": "base",
        "gpus": 1,
        "gpu_type": "v100",
        "cpus": 1,  # as it was asked for: Slurm gives whole cores
        "memory": "4G",
        "time": "1:30:00",  # it was extended
    }
    many = options_now(record, Job(id="8", nodes=("gpu01", "gpu02"), **held))
    assert many == {**options_of(record), "gpu_type": "v100", "time": "1:30:00"}
    assert options_now(record, None) == options_of(record)
    assert options_now(ADA, Job(id="8")) == options_of(ADA)
