"""GPU time of jobs, and what sessions say about themselves."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from portal.errors import InvalidRequest
from portal.models.session.usage import JobUsage, SessionReports, UsageRow
from portal.store import Store

HOUR = 3600.0


def at(day: str) -> float:
    return datetime.datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp()


def usage(job_id: str = "1", day: str = "2026-11-21", **values: Any) -> JobUsage:
    given = {"user": "ada", "held": HOUR, "submitted_at": 1000} | values
    return JobUsage(job_id=job_id, day=day, **given)


async def rows(store: Store, by: Any = "user", period: Any = "week") -> list[UsageRow]:
    return await store.usage.totals(by=by, period=period, start=0, end=at("2030-01-01"))


async def test_hours_add_up_over_days_and_jobs(store: Store) -> None:
    await store.usage.add_seconds([usage(used=900, measured=1800), usage(used=900, measured=1800)])
    await store.usage.add_seconds([usage(day="2026-11-22"), usage("2", held=4 * HOUR)])
    await store.usage.add_seconds([usage("2", submitted_at=2000)])  # Slurm counts ids anew
    assert await rows(store) == [
        UsageRow(
            key="ada", period="2026-W47", jobs=3, held_hours=8, used_hours=0.5, idle_hours=0.5,
            measured_share=1 / 8,
        )
    ]  # fmt: skip


async def test_what_was_not_measured_is_unknown_and_not_idle(store: Store) -> None:
    await store.usage.add_seconds([usage()])
    (row,) = await rows(store)
    assert (row.held_hours, row.used_hours, row.idle_hours, row.measured_share) == (
        1,
        None,
        None,
        0,
    )


@pytest.mark.parametrize(
    ("day", "week", "month"),
    [
        ("2026-11-21", "2026-W47", "2026-11"),
        ("2026-12-31", "2026-W53", "2026-12"),
        ("2027-01-03", "2026-W53", "2027-01"),  # ISO 8601: a week belongs to its Thursday's year
        ("2024-12-30", "2025-W01", "2024-12"),
    ],
)
async def test_periods(store: Store, day: str, week: str, month: str) -> None:
    await store.usage.add_seconds([usage(day=day)])
    assert [one.period for one in await rows(store, period="week")] == [week]
    assert [one.period for one in await rows(store, period="month")] == [month]


async def test_each_group_of_a_job_counts(store: Store) -> None:
    await store.usage.add_seconds(
        [usage(groups=("vision", "staff", "vision")), usage("2", groups=())]
    )
    await store.usage.add_seconds([usage("3", user="grace", groups=("staff",), held=2 * HOUR)])
    found = {row.key: (row.jobs, row.held_hours) for row in await rows(store, by="group")}
    assert found == {"": (1, 1.0), "staff": (2, 3.0), "vision": (1, 1.0)}


async def test_every_key(store: Store) -> None:
    await store.usage.add_seconds(
        [usage(groups=("g",), environment="pytorch", course="dl", account="proj", gpus=2)]
    )
    keys = {by: (await rows(store, by=by))[0].key for by in
            ("user", "group", "environment", "course", "account")}  # fmt: skip
    assert keys == {
        "user": "ada", "group": "g", "environment": "pytorch", "course": "dl", "account": "proj",
    }  # fmt: skip


async def test_only_the_days_that_were_asked_for(store: Store) -> None:
    for day in ("2026-11-20", "2026-11-21", "2026-11-22"):
        await store.usage.add_seconds([usage(day=day)])
    found = await store.usage.totals(
        by="user", period="month", start=at("2026-11-21"), end=at("2026-11-22")
    )
    assert [row.held_hours for row in found] == [2]


async def test_mine_is_nobody_elses(store: Store) -> None:
    await store.usage.add_seconds(
        [usage(environment="a"), usage("2", environment="b", held=HOUR / 2)]
    )
    await store.usage.add_seconds([usage("3", user="grace", environment="a")])
    mine = await store.usage.mine("ada", "week", 0, at("2030-01-01"))
    assert [(row.key, row.held_hours) for row in mine] == [("a", 1), ("b", 0.5)]
    assert await store.usage.mine("ada\0", "week", 0, at("2030-01-01")) == []


async def test_what_a_job_is_may_be_learnt_later(store: Store) -> None:
    await store.usage.add_seconds([usage(user="ada", environment="", groups=())])
    await store.usage.add_seconds(
        [usage(user="", environment="base", session_id="s", groups=("b", "a"))]
    )
    await store.usage.add_seconds([usage(user="", environment="", groups=(), gpus=2)])
    found = (await store.usage.of_sessions(["s"]))["s"]
    assert (found.user, found.environment, found.groups, found.gpus, found.held) == (
        "ada", "base", ("a", "b"), 2, 3 * HOUR,
    )  # fmt: skip
    assert [row.key for row in await rows(store, by="group")] == ["a", "b"]


async def test_usage_of_sessions(store: Store) -> None:
    await store.usage.add_seconds(
        [
            usage(session_id="s", used=10, measured=20, gpus=1),
            usage(session_id="s", day="2026-11-22"),
            usage("2", session_id="s", submitted_at=5000, gpus=4),  # requeued under a new id
            usage("3"),
        ]
    )
    assert await store.usage.of_sessions([]) == {}
    assert await store.usage.of_sessions(["", "none"]) == {}
    found = await store.usage.of_sessions(["s", "none"])
    assert found == {
        "s": JobUsage(
            job_id="2", submitted_at=5000, day="", user="ada", session_id="s", gpus=4,
            held=3 * HOUR, used=10, measured=20,
        )
    }  # fmt: skip


async def test_the_mark_of_what_is_accounted(store: Store) -> None:
    one, two, three = ("1", 1000), ("2", 1000), ("3", 7)
    assert await store.usage.accounted_until() == {}
    await store.usage.add_seconds([usage()])
    assert await store.usage.accounted_until() == {}
    await store.usage.mark({one: 1500.5, two: 1600.0})  # the second held nothing yet
    await store.usage.add_seconds([usage("2")], until={two: 1700.0})
    assert await store.usage.accounted_until() == {one: 1500.5, two: 1700.0}
    await store.usage.mark({one: 1800.0}, [one])
    await store.usage.mark({}, [three])
    assert await store.usage.accounted_until() == {two: 1700.0}
    (row,) = await rows(store)
    assert (row.jobs, row.held_hours) == (2, 2)


async def test_rows_and_marks_are_written_together_or_not_at_all(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="is not a date"):
        await store.usage.add_seconds(
            [usage(), usage("2", day="yesterday")], until={("1", 1000): 5.0}
        )
    assert await rows(store) == []
    assert await store.usage.accounted_until() == {}


@pytest.mark.parametrize("wrong", [{"by": "password"}, {"period": "day"}, {"start": -1e30}])
async def test_what_is_not_kept_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await store.usage.totals(
            **({"by": "user", "period": "week", "start": 0, "end": 1e9} | wrong)
        )


async def test_hostile_names(store: Store) -> None:
    names = ("a\0b", "\ud800", "'", "x" * 5000)
    await store.usage.add_seconds([usage(user="a\0b", groups=names, environment="\udfff")])
    assert [row.key for row in await rows(store)] == ["a\ufffdb"]
    assert len(await rows(store, by="group")) == 4


# -- reports of sessions -------------------------------------------------------------------------


async def test_reports_are_sums_and_peaks(store: Store) -> None:
    add = store.reports.add_report
    await add("s", at=10, gpu_seconds=60, busy_seconds=30, memory_used=None, gpu_memory_used=5)
    await add("s", at=70, gpu_seconds=60, busy_seconds=15, memory_used=900, gpu_memory_used=None)
    await add("s", at=40, gpu_seconds=1, busy_seconds=0, memory_used=800, gpu_memory_used=7)
    await add("t", at=1, gpu_seconds=1, busy_seconds=0, memory_used=None, gpu_memory_used=None)
    found = await store.reports.of_sessions(["s", "t", "u"])
    assert found == {
        "s": SessionReports(
            session_id="s", reports=3, gpu_seconds=121, busy_seconds=45, peak_memory=900,
            peak_gpu_memory=7, last_at=70,
        ),
        "t": SessionReports(session_id="t", reports=1, gpu_seconds=1, busy_seconds=0, last_at=1),
    }  # fmt: skip
    assert await store.reports.of_sessions([]) == {}


async def test_reports_never_feed_usage(store: Store) -> None:
    await store.usage.add_seconds([usage(session_id="s")])
    await store.reports.add_report(
        "s", at=10, gpu_seconds=1e6, busy_seconds=1e6, memory_used=1, gpu_memory_used=1
    )
    (row,) = await rows(store)
    assert (row.held_hours, row.used_hours) == (1, None)
