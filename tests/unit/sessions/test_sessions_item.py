"""A session as it is shown to whoever may see it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from clusters import record

from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, Partition
from portal.models.cluster.dashboard import JobItem
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.usage import JobUsage
from portal.sessions.efficiency import Source
from portal.sessions.item import SessionContext, SessionItem, session_item
from portal.sessions.links import SessionLinks

T = 1_795_262_400.0
LAB = Environment.model_validate(
    {"name": "lab", "title": "Lab", "kind": "venv", "path": "/opt/lab"}
)


def a_record(**words: Any) -> SessionRecord:
    resources = {"gpus": 2, "time": "2:00:00", "partition": "gpu", "memory": "4G"}
    usual: dict[str, Any] = {
        "id": "s1",
        "job_id": "7",
        "state": SessionState.PENDING,
        "environment": "lab",
        "environment_title": "Lab",
        "options": {"environment": "lab", **resources},
        "submitted_at": T,
        "log": "the log",
        "log_path": "/var/lib/secret/session.log",
    }
    return record(**{**usual, **words})


ENDED = {
    "state": SessionState.ENDED,
    "started_at": T + 10,
    "ended_at": T + 7210,
    "ending_code": "walltime",
    "ending_message": "The session reached its time limit of 2 h.",
}


def an_item(record: SessionRecord, **words: Any) -> SessionItem:
    values: dict[str, Any] = {"viewer": "ada", "base": "/", "now": T + 100, "environment": LAB}
    return session_item(record, SessionContext(**{**values, **words}))


def options_of(link: str | None) -> dict[str, str]:
    assert link is not None
    return dict(parse_qsl(urlsplit(link).query, strict_parsing=True))


def test_neither_the_log_nor_its_place_is_in_the_item() -> None:
    text = an_item(a_record(**ENDED)).model_dump_json()
    assert "the log" not in text and "secret" not in text


def test_a_waiting_session_says_why_and_until_when() -> None:
    job = JobItem(
        id="7",
        state="PENDING",
        words="waits for GPUs",
        position=3,
        expected_start=T + 900,
    )
    item = an_item(a_record(), job=job)
    assert (item.words, item.position, item.expected_start) == ("waits for GPUs", 3, T + 900)
    assert item.time_left is None and item.ending is None
    assert an_item(a_record()).words == "waiting"  # Slurm is away


def test_the_time_that_is_left() -> None:
    running = a_record(state=SessionState.RUNNING, started_at=T + 10)
    job = JobItem(id="7", state="RUNNING", words="", start_time=T + 10, end_time=T + 3610)
    assert an_item(running, job=job).time_left == 3510  # an admin changed it
    assert an_item(running).time_left == 7110
    assert an_item(running, now=T + 9999).time_left == 0


def test_an_ended_session_keeps_nothing_of_a_later_job_of_its_id() -> None:
    job = JobItem(id="7", state="RUNNING", words="", position=1, gpu_indexes={"gpu01": (0,)})
    item = an_item(a_record(**ENDED), job=job)
    assert item.position is None and item.gpu_indexes == {} and item.words == "ended"


def test_the_ending_is_worded_for_whoever_looks() -> None:
    stopped = a_record(**{**ENDED, "ending_code": "stopped", "stopped_by": "grace"})
    mine = an_item(stopped).ending
    assert mine is not None and mine.words == "An administrator (grace) stopped the session."
    hers = an_item(stopped, viewer="grace").ending
    assert hers is not None and hers.words == "You stopped the session."
    odd = an_item(a_record(**{**ENDED, "ending_code": "", "ending_message": ""})).ending
    assert odd is not None and (odd.code, odd.title) == ("unknown", "Unknown")
    assert odd.words == "How the session ended is unknown."


def test_the_logs_of_an_ended_session_can_be_opened_by_its_owner() -> None:
    ended = a_record(**ENDED)
    assert an_item(ended).log_folders == ("~",)
    assert an_item(ended, viewer="grace").log_folders is None
    assert an_item(ended, environment=None).log_folders is None
    assert an_item(a_record()).log_folders is None
    assert an_item(a_record(**{**ENDED, "started_at": None})).log_folders is None


def test_a_tensorboard_of_its_own_offers_its_folders_and_no_plain_launch() -> None:
    options = {**a_record().options, "tensorboard": ["/home/ada/runs"]}
    item = an_item(a_record(**{**ENDED, "options": options, "started_at": None}))
    assert item.log_folders == ("/home/ada/runs",)
    assert item.links == SessionLinks()


class TestLinks:
    def test_the_same_again_and_what_would_fit_better(self) -> None:
        links = an_item(a_record(**ENDED)).links
        assert links.open is None
        assert links.launch_again is not None and links.launch_again.startswith("/hub/spawn?")
        assert options_of(links.launch_again) == {
            "opt-environment": "lab",
            "opt-gpus": "2",
            "opt-time": "2:00:00",
            "opt-partition": "gpu",
            "opt-memory": "4G",
        }
        assert options_of(links.launch_suggested)["opt-time"] == "3:00:00"

    def test_a_partition_that_nobody_named_is_chosen_anew(self) -> None:
        links = an_item(a_record(**ENDED, partition_automatic=True)).links
        for link in (links.launch_again, links.launch_suggested):
            assert "opt-partition" not in options_of(link)
            assert options_of(link)["opt-gpus"] == "2"

    def test_within_what_the_partition_allows(self) -> None:
        partitions = {"gpu": Partition(name="gpu", max_time=7200)}
        snapshot = ClusterSnapshot(taken_at=T, partitions=partitions)
        assert an_item(a_record(**ENDED), snapshot=snapshot).suggestion is None

    def test_names_are_quoted_and_the_base_url_counts(self) -> None:
        record = a_record(**ENDED, user="a b@x", server="ser/ver?", options={"gpus": 1})
        links = an_item(record, viewer="a b@x", base="/site/").links
        assert links.launch_again == (
            "/site/hub/spawn/a%20b@x/ser%2Fver%3F?opt-environment=lab&opt-gpus=1"
        )
        running = record.model_copy(update={"state": SessionState.RUNNING})
        open_ = an_item(running, viewer="a b@x", base="/site/").links.open
        assert open_ == "/site/user/a%20b@x/ser%2Fver%3F/"

    def test_values_cannot_add_options(self) -> None:
        record = a_record(**ENDED, options={"qos": "x&opt-gpus=99#"})
        assert options_of(an_item(record).links.launch_again) == {
            "opt-qos": "x&opt-gpus=99#",
            "opt-environment": "lab",
        }

    @pytest.mark.parametrize(
        "words",
        [
            {"viewer": "grace"},  # somebody else's
            {"environment": None},  # no longer offered
            {"living": (a_record(id="s2"),)},  # its server is there already
        ],
    )
    def test_where_there_is_nothing_to_go_to(self, words: dict[str, Any]) -> None:
        links = an_item(a_record(**ENDED), **words).links
        assert links.launch_again is links.launch_suggested is links.open is None

    def test_another_server_of_the_same_person_is_no_hindrance(self) -> None:
        other = a_record(id="s2", server="second")
        assert an_item(a_record(**ENDED), living=(other,)).links.launch_again


def test_a_session_that_has_just_ended_does_not_stand_in_its_own_way() -> None:
    assert an_item(a_record(**ENDED), living=(a_record(),)).links.launch_again


def test_what_was_measured_is_said_with_its_source() -> None:
    usage = JobUsage(
        job_id="7", submitted_at=int(T), day="", user="ada", held=14_400, used=0, measured=14_400
    )
    item = an_item(a_record(**ENDED), usage=usage, simulated=True)
    assert item.efficiency.gpu_source is Source.SIMULATED
    assert item.efficiency.gpu_busy_share == 0
    assert item.suggestion is not None
    assert any("(simulated)" in word for word in item.suggestion.words)
