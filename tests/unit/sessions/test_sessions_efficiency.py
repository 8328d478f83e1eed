"""What a session made of what it asked for, and what the next one could ask for."""

from __future__ import annotations

from typing import Any

import pytest
from session_records import recorded

from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Node
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.usage import JobUsage, SessionReports
from portal.sessions.efficiency import Efficiency, Source, efficiency_of
from portal.sessions.right_size import Suggestion, slices_of, suggestion_for

T = 1_795_262_400.0
HOUR = 3600.0


def a_record(**words: Any) -> SessionRecord:
    options = {
        "environment": "lab", "gpus": 4, "gpu_type": "v100", "memory": "64G", "time": "24:00:00",
        "partition": "gpu", "nodes": 1, **words.pop("options", {}),
    }  # fmt: skip
    values: dict[str, Any] = {
        "id": "s1",
        "user": "ada",
        "environment": "lab",
        "options": {key: value for key, value in options.items() if value is not None},
        "job_id": "7",
        "state": SessionState.ENDED,
        "submitted_at": T,
        "started_at": T + 10,
        "ended_at": T + 10 + HOUR,
        "ending_code": "stopped",
    }
    return recorded(**{**values, **words})


def a_usage(held: float, used: float, measured: float) -> JobUsage:
    return JobUsage(
        job_id="7", submitted_at=int(T), day="", user="ada", gpus=4, held=held, used=used,
        measured=measured,
    )  # fmt: skip


def reports(**words: Any) -> SessionReports:
    values = {"session_id": "s1", "reports": 9, "gpu_seconds": 0, "busy_seconds": 0, "last_at": T}
    return SessionReports(**{**values, **words})


def test_what_telemetry_measured_counts_before_the_sessions_own_word() -> None:
    found = efficiency_of(
        a_record(),
        a_usage(14_400, 1800, 7200),
        reports(gpu_seconds=14_400, busy_seconds=14_400),
        now=T + 9999,
    )
    assert (found.gpus, found.gpu_hours_held, found.gpu_hours_used) == (4, 4.0, 0.5)
    assert (found.gpu_busy_share, found.gpu_measured_share) == (0.25, 0.5)
    assert found.gpu_source is Source.TELEMETRY
    assert (found.time_used, found.time_asked) == (HOUR, 86_400)


def test_a_demo_says_that_it_is_invented() -> None:
    found = efficiency_of(a_record(), a_usage(100, 1, 100), None, now=T, simulated=True)
    assert found.gpu_source is Source.SIMULATED


def test_where_nobody_measures_the_sessions_own_word_stands_as_such() -> None:
    told = reports(gpu_seconds=7200, busy_seconds=3600, peak_memory=900)
    found = efficiency_of(a_record(), a_usage(14_400, 0, 0), told, now=T)
    assert (found.gpu_busy_share, found.gpu_source) == (0.5, Source.SESSION)
    assert (found.memory_peak, found.memory_source) == (900, Source.SESSION)
    assert found.gpu_hours_held == 4.0


def test_accountings_peak_counts_before_the_sessions_own() -> None:
    found = efficiency_of(a_record(peak_memory=3000), None, reports(peak_memory=900), now=T)
    assert (found.memory_peak, found.memory_asked) == (3000, 65_536)
    assert found.memory_source is Source.SLURM


def test_what_nobody_measured_is_none_and_not_zero() -> None:
    found = efficiency_of(a_record(), None, None, now=T)
    assert found.gpu_busy_share is found.gpu_hours_used is found.gpu_source is None
    assert found.memory_peak is found.memory_source is None
    assert found.gpu_hours_held == 4.0  # what was held is known from the times
    waiting = a_record(
        state=SessionState.PENDING, started_at=None, ended_at=None, ending_code="", options={}
    )
    found = efficiency_of(waiting, None, None, now=T + 50)
    assert found.time_used is found.gpu_hours_held is None
    odd = a_record(options={"gpus": "four", "memory": "much", "time": "long"})
    assert efficiency_of(odd, None, None, now=T) == Efficiency(time_used=HOUR)


def test_a_running_session_counts_until_now() -> None:
    running = a_record(state=SessionState.RUNNING, ended_at=None, ending_code="")
    assert efficiency_of(running, None, None, now=T + 10 + 90).time_used == 90


class TestSuggestions:
    ENVIRONMENT = Environment.model_validate(
        {"name": "lab", "title": "Lab", "kind": "venv", "path": "/opt/lab"}
    )

    def suggest(
        self,
        *,
        record: dict[str, Any] | None = None,
        share: float | None = None,
        measured: float = 1.0,
        environment: dict[str, Any] | None = None,
        longest: int | None = None,
        peak: int | None = None,
        source: Source = Source.TELEMETRY,
        hours: float = 20,
        gpu_memory: int | None = None,
        slices: tuple[str, ...] = (),
    ) -> Suggestion | None:
        """For a session of 20 of its 24 hours, with 4 GPUs and 64 GB, unless told otherwise."""
        kept = a_record(ended_at=T + 10 + hours * HOUR, peak_memory=peak, **(record or {}))
        found = efficiency_of(kept, None, None, now=T)
        if share is not None:
            update = {
                "gpu_busy_share": share, "gpu_measured_share": measured, "gpu_source": source,
            }  # fmt: skip
            found = found.model_copy(update=update | {"gpu_memory_peak": gpu_memory})
        known = Environment.model_validate({**self.ENVIRONMENT.model_dump(), **(environment or {})})
        return suggestion_for(kept, found, known, longest, slices)

    @pytest.mark.parametrize(
        ("gpus", "share", "enough"),
        [
            (4, 0.25, 1),  # one of four
            (4, 0.2, 1),
            (4, 0.26, 1),  # a little over one is one
            (4, 0.4, 2),
            (4, 0.5, 2),
            (4, 0.51, None),  # more than half: they are used
            (8, 0.3, 3),
            (2, 0.5, 1),
            (1, 0.4, None),
            (1, 0.0, 0),
            (4, 0.005, 0),
        ],
    )
    def test_gpus(self, gpus: int, share: float, enough: int | None) -> None:
        found = self.suggest(record={"options": {"gpus": gpus}}, share=share)
        assert (found.changes["gpus"] if found else None) == enough
        if found and enough:
            assert found.options["gpus"] == enough and found.options["gpu_type"] == "v100"
            assert "On average" in found.words[0]
        elif found:
            assert "gpu_type" not in found.options  # the type of no GPU at all

    SLICES = ("a100_1g.10gb", "a100_3g.40gb", "a100_7g.80gb")

    @pytest.mark.parametrize(
        ("gpus", "gpu_type", "share", "memory", "slice_type"),
        [
            (1, "a100", 0.1, 4000, "a100_1g.10gb"),
            (1, "a100", 0.14, 7900, "a100_1g.10gb"),
            (1, "a100", 0.1, 7960, "a100_3g.40gb"),  # 1.2 times the peak is more than 10 GB
            (1, "a100", 0.2, 4000, "a100_3g.40gb"),  # more than a seventh of the time
            (4, "a100", 0.03, 4000, "a100_1g.10gb"),  # of four, an eighth of one was used
            (1, "a100", 0.9, 4000, "a100_7g.80gb"),
            (1, "a100_3g.40gb", 0.1, 4000, "a100_1g.10gb"),
            (1, "a100_1g.10gb", 0.1, 4000, None),  # has it already
            (1, "a100", 0.1, None, None),  # its memory is not known
            (1, "shard.a100", 0.1, 4000, None),  # what others did on that GPU is in it
            (1, "a100", 0.1, 90_000, None),
        ],
    )
    def test_a_slice_would_have_been_enough(
        self, gpus: int, gpu_type: str, share: float, memory: int | None, slice_type: str | None
    ) -> None:
        found = self.suggest(
            record={"options": {"gpus": gpus, "gpu_type": gpu_type}},
            share=share,
            gpu_memory=memory,
            slices=self.SLICES,
        )
        if slice_type is None:
            assert found is None or found.changes.get("gpu_type") is None
            return
        assert found is not None
        assert found.changes == {"gpus": 1, "gpu_type": slice_type, "partition": None}
        assert found.options["gpu_type"] == slice_type and "partition" not in found.options
        assert f"a slice {slice_type} with " in found.words[0]

    def test_a_slice_is_one_that_the_environment_runs_on(self) -> None:
        ask = {"record": {"options": {"gpus": 1}}, "share": 0.1, "gpu_memory": 4000}
        assert self.suggest(**ask) is None
        narrow = {"gpu_types": ("v100", "a100_3g.40gb")}
        found = self.suggest(**ask, slices=self.SLICES, environment=narrow)
        assert found is not None and found.changes["gpu_type"] == "a100_3g.40gb"
        assert self.suggest(**ask, slices=self.SLICES, environment={"gpu_types": ("v100",)}) is None
        assert self.suggest(**ask, slices=self.SLICES, measured=0.4) is None
        assert found.words == (
            "The GPU was busy 10 % of the time and held at most 3.9 GB (as reported by the "
            "session): a slice a100_3g.40gb with 40 GB may be enough.",
        )

    def test_the_slices_of_nodes_that_take_jobs(self) -> None:
        def node(name: str, gpu_type: str, state: str = "IDLE") -> Node:
            pools = (GpuPool(type=gpu_type, count=7),)
            return Node(name=name, address="", state=state, gpus=pools)

        nodes = [node("a", "1g.5gb"), node("b", "a100"), node("c", "2g.10gb", "DOWN")]
        snapshot = ClusterSnapshot(taken_at=T, nodes={one.name: one for one in nodes})
        assert slices_of(snapshot) == {"1g.5gb"}
        assert slices_of(None) == slices_of(ClusterSnapshot(taken_at=T)) == frozenset()

    def test_the_words(self) -> None:
        found = self.suggest(share=0.225)
        assert found is not None
        assert found.words == ("On average 0.9 of 4 GPUs were busy: 1 GPU may be enough.",)
        assert found.options["environment"] == "lab" and found.options["memory"] == "64G"
        told = self.suggest(share=0.225, source=Source.SESSION)
        assert told is not None and "(as reported by the session)" in told.words[0]

    def test_what_was_not_measured_enough_says_nothing(self) -> None:
        assert self.suggest() is None
        assert self.suggest(share=0.1, measured=0.49) is None
        assert self.suggest(share=0.1, hours=0.16, record={"ending_code": "failed"}) is None
        short = {"options": {"time": "0:30:00"}}
        assert self.suggest(share=0.1, peak=900, hours=0.16, record=short) is None
        assert self.suggest(share=0.1, record={"options": {"nodes": 2}}) is None
        living = {"state": SessionState.RUNNING, "ending_code": ""}
        assert self.suggest(share=0.1, record=living) is None

    @pytest.mark.parametrize(
        ("asked", "peak", "default", "memory"),
        [
            ("64G", 3 * 1024, None, "6G"),  # 1.5 times 3 is 4.5
            ("64G", 3 * 1024, "16G", "16G"),  # not below the environment's own
            ("64G", 300, None, "1G"),
            ("64G", 30 * 1024, None, "48G"),
            ("64G", 40 * 1024, None, None),  # not worth it
            ("2G", 1200, None, None),
            ("1T", 600 * 1024, None, None),
            (None, 900, None, None),
        ],
    )
    def test_memory(
        self, asked: str | None, peak: int, default: str | None, memory: str | None
    ) -> None:
        found = self.suggest(
            record={"options": {"memory": asked}},
            peak=peak,
            environment={"default": {"memory": default}} if default else None,
        )
        assert (found.changes["memory"] if found else None) == memory

    @pytest.mark.parametrize(
        ("asked", "peak", "most", "memory"),
        [
            ("4G", 5000, None, "8G"),  # 1.5 times the peak
            ("4G", 3000, None, "6G"),  # Slurm saw less than it was: 1.5 times what was asked
            ("4G", None, None, "6G"),
            ("4G", 5000, "6G", "6G"),
            ("6G", 7000, "6G", None),  # the environment allows no more
            ("400M", 900, None, "2G"),
        ],
    )
    def test_more_memory_after_running_out(
        self, asked: str, peak: int | None, most: str | None, memory: str | None
    ) -> None:
        found = self.suggest(
            record={"options": {"memory": asked}, "ending_code": "out_of_memory"},
            peak=peak,
            environment={"max_memory": most},
            hours=0.01,
        )
        assert (found.changes["memory"] if found else None) == memory

    @pytest.mark.parametrize(
        ("asked", "hours", "code", "time"),
        [
            ("24:00:00", 0.34, "stopped", "1:00:00"),
            ("24:00:00", 5.0, "completed", "8:00:00"),
            ("24:00:00", 10.0, "stopped", None),
            ("2:00:00", 0.5, "stopped", "1:00:00"),
            ("1:00:00", 0.2, "stopped", None),
            ("24:00:00", 0.34, "node_failure", None),
            ("24:00:00", 0.34, "out_of_memory", None),
            ("2:00:00", 2.0, "walltime", "3:00:00"),
            ("0:01:00", 0.02, "walltime", "1:00:00"),
            ("4-00:00:00", 96.0, "walltime", "168:00:00"),
        ],
    )
    def test_time(self, asked: str, hours: float, code: str, time: str | None) -> None:
        record = {"options": {"time": asked, "memory": None}, "ending_code": code}
        found = self.suggest(record=record, hours=hours)
        assert (found.changes["time"] if found else None) == time

    def test_a_longer_time_stays_within_what_is_allowed(self) -> None:
        record = {"options": {"time": "2:00:00"}, "ending_code": "walltime"}
        found = self.suggest(record=record, hours=2, environment={"max_time": "2:30:00"})
        assert found is not None and found.changes == {"time": "2:30:00"}
        found = self.suggest(record=record, hours=2, longest=9000)
        assert found is not None and found.changes == {"time": "2:30:00"}
        assert self.suggest(record=record, hours=2, longest=7200) is None

    def test_one_that_was_extended_and_reached_its_end_all_the_same(self) -> None:
        record = {"options": {"time": "2:00:00"}, "ending_code": "walltime", "time_limit": 14_400}
        found = self.suggest(record=record, hours=4)
        assert found is not None and found.changes == {"time": "6:00:00"}
        assert "its time limit of 4 h" in found.words[0]

    def test_only_what_the_environment_allows_now(self) -> None:
        assert suggestion_for(a_record(), Efficiency(), None) is None
        assert self.suggest(share=0.3, environment={"gpu_types": ("a100",)}) is None
        kept = self.suggest(share=0.1, environment={"default": {"gpus": 2}})
        assert kept is not None and kept.changes == {"gpus": 2}

    def test_options_of_an_older_version_are_left_alone(self) -> None:
        assert self.suggest(share=0.1, record={"options": {"colour": "red"}}) is None

    def test_several_at_once(self) -> None:
        found = self.suggest(share=0.2, peak=1000, hours=1)
        assert found is not None
        assert found.changes == {"gpus": 1, "memory": "2G", "time": "2:00:00"}
        assert len(found.words) == 3 and all(word.endswith(".") for word in found.words)


def test_a_session_that_was_extended_had_more_time_than_its_launch_asked_for() -> None:
    this = a_record(options={"time": "1:00:00"})
    found = efficiency_of(this, None, None, now=T, time_limit=5400)
    assert (found.time_asked, found.time_limit) == (HOUR, 5400)
    ended = this.model_copy(update={"time_limit": 7200})
    found = efficiency_of(ended, None, None, now=T)
    assert (found.time_asked, found.time_limit) == (HOUR, 7200)
    assert efficiency_of(this, None, None, now=T).time_limit == HOUR
