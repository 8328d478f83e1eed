"""Sessions as they are remembered."""

from __future__ import annotations

import math
from typing import Any

import pytest
from session_records import recorded

from portal.errors import InvalidRequest
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store


def record(id: str, **values: Any) -> SessionRecord:
    return recorded(**({"id": id, "user": "ada", "submitted_at": 1000.0} | values))


FULL = recorded(
    id="8aXk-_",
    user="ada",
    server="train",
    account="ada",
    groups=("vision", "staff"),
    environment="pytorch-25",
    environment_title="PyTorch 25.10",
    options={"gpus": 2, "gpu_type": "v100", "memory": "16G", "nodes": None},
    partition_automatic=True,
    space="dl-2026",
    job_id="1234",
    state=SessionState.ENDED,
    submitted_at=1763700000.123,
    started_at=1763700001.5,
    ready_at=1763700007.25,
    ended_at=1763703600.0,
    nodes=("gpu01", "gpu02"),
    ending_code="out_of_memory",
    ending_message="The session needed more memory than the 16G that it asked for.",
    stopped_by="",
    log="line 1\nline 2 \u2713\n",
    log_path="/srv/log/x.log",
    peak_memory=2**40,
    exit_code=-9,
)


async def test_a_session_comes_back_as_it_was(store: Store) -> None:
    await store.sessions.save(FULL)
    assert await store.sessions.get(FULL.id) == FULL
    assert await store.sessions.get("8axk-_") is None


async def test_saving_again_replaces(store: Store) -> None:
    await store.sessions.save(record("a", state=SessionState.RUNNING, job_id="1"))
    ended = record("a", state=SessionState.ENDED, ended_at=2000.0)
    await store.sessions.save(ended)
    assert await store.sessions.find() == ([ended], 1)
    assert await store.sessions.living() == []


async def test_filters(store: Store) -> None:
    await store.sessions.save(record("a", submitted_at=100, environment="base"))
    await store.sessions.save(record("b", submitted_at=200, state=SessionState.RUNNING))
    await store.sessions.save(record("c", submitted_at=300, state=SessionState.ENDED))
    await store.sessions.save(record("d", submitted_at=400, user="grace"))

    async def ids(**wanted: Any) -> list[str]:
        found, total = await store.sessions.find(**wanted)
        assert total == len(found)
        return [one.id for one in found]

    assert await ids() == ["d", "c", "b", "a"]
    assert await ids(user="ada") == ["c", "b", "a"]
    assert await ids(user="nobody") == []
    await store.sessions.save(record("d", submitted_at=400, user="grace", server="second"))
    assert await ids(server="second") == await ids(user="grace", server="second") == ["d"]
    assert await ids(user="ada", server="second") == []
    assert await ids(state=SessionState.RUNNING) == ["b"]
    assert await ids(ended=True) == ["c"]
    assert await ids(ended=False, user="ada") == ["b", "a"]
    assert await ids(environment="base") == ["a"]
    assert await ids(since=200, until=400) == ["c", "b"]
    await store.sessions.save(record("d", submitted_at=400, user="grace", work="kernel"))
    assert await ids(works=["kernel", "run"]) == ["d"]
    assert await ids(other_works=["kernel", "run"]) == ["c", "b", "a"]
    assert await ids(works=[]) == []
    assert [one.id for one in await store.sessions.living()] == ["a", "b", "d"]


async def test_pages_and_order(store: Store) -> None:
    for number in range(7):
        started = None if number == 3 else 100.0 - number
        await store.sessions.save(record(f"s{number}", started_at=started, user="abcABCD"[number]))
    # All were submitted at one time: the id decides, so that pages neither repeat nor miss.
    seen = []
    for offset in (0, 3, 6):
        page, total = await store.sessions.find(sort="submitted_at", offset=offset, limit=3)
        seen += [one.id for one in page]
        assert total == 7
    assert seen == [f"s{number}" for number in range(7)]
    assert await store.sessions.find(offset=2**70) == ([], 7)
    assert await store.sessions.find(limit=0) == ([], 7)
    page, _ = await store.sessions.find(sort="started_at")
    assert [one.id for one in page] == ["s6", "s5", "s4", "s2", "s1", "s0", "s3"]
    page, _ = await store.sessions.find(sort="-started_at")
    assert [one.id for one in page] == ["s0", "s1", "s2", "s4", "s5", "s6", "s3"]


@pytest.mark.parametrize("sort", ["log", "", "-", "--user", "user; DROP TABLE sessions", "id\0"])
async def test_order_by_something_else_is_refused(store: Store, sort: str) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot be sorted by .*submitted_at") as caught:
        await store.sessions.find(sort=sort)
    assert caught.value.field == "sort"


@pytest.mark.parametrize("at", [math.nan, 10**400])
async def test_a_time_that_is_none_is_refused(store: Store, at: float) -> None:
    with pytest.raises(InvalidRequest, match="'since' is not a time"):
        await store.sessions.find(since=at)


async def test_any_time_can_be_asked_for(store: Store) -> None:
    await store.sessions.save(FULL)
    assert (await store.sessions.find(since=-math.inf, until=math.inf))[1] == 1
    assert (await store.sessions.find(since=1e300, until=-1e300))[1] == 0


async def test_search_looks_into_four_fields_and_not_at_case(store: Store) -> None:
    await store.sessions.save(FULL)
    await store.sessions.save(record("x", user="Åsa", environment="straße_50%", server="né"))
    for text in ("ADA", "TRAIN", "123", "pytorch", "PyTorch 25.10"):
        assert [one.id for one in (await store.sessions.find(text=text))[0]] == [FULL.id], text
    for text in ("ÅSA", "åsa", "STRASSE_50%", "_50%", "NÉ"):
        assert [one.id for one in (await store.sessions.find(text=text))[0]] == ["x"], text
    for text in ("%", "_"):  # they mean themselves
        assert [one.id for one in (await store.sessions.find(text=text))[0]] == ["x"], text
    for text in ("a%a", "line 1", "/", "\\", "' OR 1=1 --"):
        assert (await store.sessions.find(text=text))[1] == 0, text


@pytest.mark.parametrize(
    "hostile", ["\x00", "a\x00b", "\ud800", "\udfff x", "'; DROP TABLE sessions --", "\u202e", "%s"]
)
async def test_any_string_can_be_kept_and_asked_for(store: Store, hostile: str) -> None:
    kept = record(
        hostile, user=hostile, log=hostile, options={hostile: [hostile]}, groups=(hostile,)
    )
    await store.sessions.save(kept)
    await store.sessions.save(record("other", user="grace"))
    found = await store.sessions.get(hostile)
    assert found is not None
    expected = "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in hostile)
    assert found.log == found.user == found.groups[0] == expected
    assert found.options == {expected: [expected]}
    assert (await store.sessions.find(user=hostile))[0] == [found]
    assert (await store.sessions.find(text=hostile))[0] == [found]
    assert (await store.sessions.find(environment=hostile))[0] == []


async def test_a_hostile_name_finds_nobody_else(store: Store) -> None:
    await store.sessions.save(record("a"))
    assert await store.sessions.get("a\0") is None
    assert (await store.sessions.find(user="ada\0"))[1] == 0


async def test_very_long_words_are_cut_and_numbers_outside_json_are_dropped(store: Store) -> None:
    """PostgreSQL refuses long index entries, and NaN in JSON."""
    long = "\U0001f600" * 5000
    kept = record(
        "a", user=long, environment=long, log=long, options={"x": math.nan, "y": [math.inf]}
    )
    await store.sessions.save(kept)
    found = await store.sessions.get("a")
    assert found is not None
    assert (len(found.user), found.log) == (300, long)
    assert found.options == {"x": None, "y": [None]}


async def test_old_ended_sessions_can_be_forgotten(store: Store) -> None:
    await store.sessions.save(record("old", state=SessionState.ENDED, ended_at=100.0))
    await store.sessions.save(record("new", state=SessionState.ENDED, ended_at=200.0))
    await store.sessions.save(record("living", state=SessionState.RUNNING, submitted_at=1.0))
    assert await store.sessions.prune(150) == 1
    assert {one.id for one in (await store.sessions.find())[0]} == {"new", "living"}


async def test_what_has_not_ended_is_counted_by_kind_and_state(store: Store) -> None:
    assert await store.sessions.works() == [] and await store.sessions.people() == 0
    await store.sessions.save(
        record("a", state=SessionState.PENDING, submitted_at=300.0),
        record("b", state=SessionState.PENDING, submitted_at=200.0, user="grace"),
        record("c", state=SessionState.RUNNING, work="run"),
        record("d", state=SessionState.ENDED, submitted_at=100.0, user="barbara"),
    )
    assert sorted(await store.sessions.works()) == [
        ("jupyterlab", "pending", 2, 200.0),
        ("run", "running", 1, 1000.0),
    ]
    assert await store.sessions.people() == 2
