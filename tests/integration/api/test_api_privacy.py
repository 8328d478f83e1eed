"""What belongs to others is nowhere in what the API says to ada: not in a list, a file, an event,
nor in what a filter finds or how a list is sorted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import wait_until

from portal.handlers.cluster.jobs import JobFilter

SECRET = "xylophon"  # stands in every name that is not for ada
PEOPLE = {"grace": "3-xylophon", "barbara": "1-xylophon", "student01": "2-xylophon"}
BLANK = ("user", "name", "account", "environment", "session_id", "work", "work_name", "work_id")


def submit(demo: Any, owner: str, *options: str) -> str:
    argv = ["sbatch", "--parsable", "--output=/dev/null", "--time=10", *options]
    return str(demo.run([*argv, "--wrap=sleep 600"], user=demo.user(owner)).stdout.strip())


@pytest.fixture(scope="module")
def theirs(demo: Any, ada: Caller, grace: Caller) -> Iterator[dict[str, str]]:
    """Job ids by owner: jobs of others that hold GPUs, whose names stand in another order than
    their ids; and a session of grace's."""
    ids = {
        owner: submit(demo, owner, "--gpus=v100:1", f"--job-name={name}", f"--comment={SECRET}")
        for owner, name in PEOPLE.items()
    }
    options = {"environment": "python-venv", "gpus": 1, "gpu_type": "v100"}
    assert grace.person.launch(options).status_code in (201, 202)
    grace.person.wait_ready()
    wait_until(
        "the dashboard knows the jobs of others",
        lambda: {*ids.values()} <= {job["id"] for job in ada.items("jobs", state="running")},
    )
    wait_until(
        "the dashboard knows grace's session",
        lambda: any(job["portal"] for job in grace.items("jobs", mine=True, state="running")),
    )
    yield ids
    grace.person.stop()
    for id_ in ids.values():
        demo.run(["scancel", id_], check=False)


def telltales(demo: Any) -> tuple[str, ...]:
    """What would give away a person; in the one-account form all jobs have one owner."""
    people = tuple(PEOPLE) if demo.people else ("grace",)
    return (SECRET, "python-venv", *people)


def none_of_theirs(demo: Any, text: str) -> None:
    for word in telltales(demo):
        assert word not in text, f"{word!r} is told"


def test_lists(demo: Any, ada: Caller, grace: Caller, theirs: dict[str, str]) -> None:
    jobs = {job["id"]: job for job in ada.items("jobs")}
    hers = {job["id"]: job for job in grace.items("jobs")}
    for id_ in theirs.values():
        assert all(jobs[id_][name] is None for name in BLANK)
        assert jobs[id_]["mine"] is False
        assert SECRET in hers[id_]["name"]
    none_of_theirs(demo, json.dumps([j for j in jobs.values() if j["id"] in theirs.values()]))
    gpus = [gpu for gpu in ada.items("gpus") if gpu["job_id"] in theirs.values()]
    assert len(gpus) == 3
    assert all(
        (gpu["user"], gpu["environment"], gpu["mine"]) == (None, None, False) for gpu in gpus
    )
    for path in (
        "jobs?limit=500",
        "gpus?limit=500",
        "board",
        "cluster",
        "nodes",
        "history?points=2",
        "history/series?points=2",
        "history/nodes",
    ):
        none_of_theirs(demo, ada.get(path).text)


def test_single_jobs(demo: Any, ada: Caller, theirs: dict[str, str]) -> None:
    for id_ in theirs.values():
        none_of_theirs(demo, ada.get(f"jobs/{id_}").text)
        if demo.people:
            assert ada.get(f"jobs/{id_}/use").status_code == 403


def test_a_session_of_someone_else(ada: Caller, grace: Caller, theirs: dict[str, str]) -> None:
    [hers] = [job for job in grace.items("jobs", mine=True) if job["portal"]]
    assert hers["environment"] == "python-venv"
    assert hers["session_id"]
    seen = ada.get(f"jobs/{hers['id']}").json()
    assert seen["portal"] is True
    assert all(seen[name] is None for name in BLANK)
    [gpu] = [gpu for gpu in ada.items("gpus") if gpu["job_id"] == hers["id"]]
    assert (gpu["user"], gpu["environment"], gpu["mine"]) == (None, None, False)


def test_files(demo: Any, ada: Caller, grace: Caller, theirs: dict[str, str]) -> None:
    for path in ("jobs.csv", "gpus.csv", "nodes.csv"):
        answer = ada.get(path)
        assert answer.status_code == 200
        none_of_theirs(demo, answer.text)
    assert SECRET in grace.get("jobs.csv").text


def test_the_board_of_an_admin_is_not_given_to_others(
    ada: Caller, grace: Caller, theirs: dict[str, str]
) -> None:
    for _ in range(3):
        hers, mine = grace.get("board"), ada.get("board")
        users = {gpu["user"] for gpu in mine.json()["gpus"].values()}
        assert users == {None}
        assert {gpu["user"] for gpu in hers.json()["gpus"].values()} != {None}
        assert hers.headers["etag"] != mine.headers["etag"]
        same = ada.get("board", headers={"If-None-Match": hers.headers["etag"]})
        assert same.status_code == 200


def test_filters_find_nothing_that_is_not_shown(
    demo: Any, ada: Caller, grace: Caller, theirs: dict[str, str]
) -> None:
    for query in (
        {"text": SECRET},
        {"text": "grace"},
        {"user": "grace"},
        {"environment": "python-venv"},
        {"user": "None"},
        {"user": "null"},
    ):
        assert ada.get("jobs", params=query).json()["total"] == 0, query
    for query in ({"user": "grace"}, {"text": "python-venv"}, {"text": "grace"}):
        assert ada.get("gpus", params=query).json()["total"] == 0, query
    assert grace.get("jobs", params={"text": SECRET}).json()["total"] == 3
    account = grace.get(f"jobs/{theirs['grace']}").json()["account"]
    found = ada.items("jobs", account=account)
    assert not {job["id"] for job in found} & set(theirs.values())


def test_orders_tell_nothing(ada: Caller, grace: Caller, theirs: dict[str, str]) -> None:
    ids = set(theirs.values())

    def order(caller: Caller, path: str, key: str, sort: str) -> list[str]:
        return [item[key] for item in caller.items(path, sort=sort) if item[key] in ids]

    plain = order(ada, "jobs", "id", "id")
    for name in ("user", "name", "account", "environment"):
        for sort in (name, f"-{name}"):
            assert order(ada, "jobs", "id", sort) == plain
    for sort in ("user", "-user", "environment", "-environment"):
        assert order(ada, "gpus", "job_id", sort) == order(ada, "gpus", "job_id", "node")
    assert order(grace, "jobs", "id", "name") != plain, "the test could not fail"
    assert {"user", "name", "account", "environment"} <= set(
        JobFilter.model_fields["sort"].annotation.__args__
    )


def test_events_and_changes(demo: Any, ada: Caller) -> None:
    board = ada.get("board").json()
    with ada.events() as events:
        seen = [next(events)]
        id_ = submit(demo, "grace", "--gpus=v100:1", f"--job-name={SECRET}")
        try:
            for event in events:
                seen.append(event)
                if any(gpu["job_id"] == id_ for gpu in event.data.get("gpus", {}).values()):
                    break
            answer = ada.get(
                "changes", params={"stream": board["stream"], "version": board["version"]}
            )
            assert id_ in answer.text
            none_of_theirs(demo, answer.text)
        finally:
            demo.run(["scancel", id_], check=False)
        for event in events:
            seen.append(event)
            if id_ in event.data.get("gone_jobs", ()):
                break
    none_of_theirs(demo, "\n".join(event.raw for event in seen))


def test_ones_own_is_marked_and_named(demo: Any, ada: Caller) -> None:
    if not demo.people:
        return  # all jobs there belong to one account, which is nobody's
    id_ = submit(demo, "ada", "--gpus=v100:1", "--job-name=hers")
    try:
        job = wait_until(
            "the job runs",
            lambda: next((j for j in ada.items("jobs", mine=True, state="running")), None),
        )
        assert (job["id"], job["user"], job["name"]) == (id_, "ada", "hers")
        assert [gpu["user"] for gpu in ada.items("gpus", mine=True)] == ["ada"]
        own = ada.get("changes", params={"stream": "0", "version": 0}).json()["own"]
        assert set(own["jobs"]) == {id_}
        assert all(gpu["mine"] for gpu in own["gpus"].values())
    finally:
        demo.run(["scancel", id_], check=False)
