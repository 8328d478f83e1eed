"""One's own sessions by the API: why they ended, in whose words, and what they used."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from brief_session import brief_session
from hub_client import Person, wait_until
from jobs import only_job
from terminal import terminal

HOSTILE = (
    "<script>alert(1)</script>\n\x1b[31mred\x1b[0m\x1b]0;title\x07\n"
    "exe\u202etxt.png \x00nul &amp; caf\u00e9"
)


def ask(someone: Person, path: str, method: str = "GET", **more: Any) -> httpx.Response:
    """A call of the service's API with this person's token."""
    if not someone.token:
        someone.api("GET", "/user")
    return httpx.request(
        method,
        f"{someone.url}/services/portal/api/v1/{path}",
        headers={"Authorization": f"token {someone.token}"},
        timeout=60,
        **more,
    )


def items(someone: Person, path: str = "sessions") -> list[dict[str, Any]]:
    answer = ask(someone, path)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def launch(someone: Person, **options: Any) -> dict[str, Any]:
    """Launch and wait until it is ready; its item."""
    before = {item["id"] for item in items(someone)}
    answer = someone.launch({"environment": "python-venv", **options})
    assert answer.status_code in (201, 202), answer.text
    someone.wait_ready()
    return wait_until(
        "the session is recorded as running",
        lambda: next(
            (
                item
                for item in items(someone)
                if item["id"] not in before and item["state"] == "running"
            ),
            None,
        ),
    )


def ended(someone: Person, session_id: str, timeout: float = 90) -> dict[str, Any]:
    """Wait until the session is recorded as ended; it, with its log."""

    def look() -> Any:
        answer = ask(someone, f"sessions/{session_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()["state"] == "ended" and answer.json()

    return wait_until("the session is recorded as ended", look, timeout)


@pytest.fixture(scope="module")
def grace(demo: Any, person: Callable[[str], Person]) -> Person:
    """An admin, once the service has a view of the cluster."""
    someone = person("grace")
    wait_until("the service sees the cluster", lambda: ask(someone, "cluster").status_code == 200)
    return someone


@pytest.fixture(scope="module", autouse=True)
def short_session(demo: Any, person: Callable[[str], Person]) -> Person:
    student = person("student07")
    brief_session(demo, student)
    return student


def held(grace: Person, user: str) -> float:
    """The GPU-seconds that a user has held, as everyone's usage tells."""
    rows = items(grace, "usage?by=user&period=month&limit=500")
    return 3600 * sum(row["held_hours"] for row in rows if row["key"] == user)


@pytest.fixture(scope="module", autouse=True)
def gpu_job(demo: Any, grace: Person) -> tuple[str, str, float]:
    """A plain job that holds two GPUs for 20 seconds: (its user, its id, the GPU-seconds that the
    user held before). It is accounted beside the other tests: that is written once a minute."""
    student = f"student{8 + int(time.time()) % 22:02}"  # another in each run, on a demo that stays
    user = student if demo.people else str(demo.words["account"])
    before = held(grace, user)
    options = ["--parsable", "--gpus=2", "--time=2", "--output=/dev/null", "--wrap=sleep 20"]
    made = demo.run(["sbatch", "--partition=gpu", *options], user=demo.user(student))
    return user, made.stdout.strip(), before


def elapsed(demo: Any, job_id: str) -> int:
    """The seconds that a job ran, by Slurm's accounting; 0 before that has its end."""
    said = demo.run(["sacct", "-nPX", "-j", job_id, "-o", "state,elapsedraw"]).stdout.strip()
    state, _, seconds = said.partition("|")
    return int(seconds) if state == "COMPLETED" else 0


def test_a_running_session_has_everything_that_its_page_needs(demo: Any, ada: Person) -> None:
    item = launch(ada, gpus=1, gpu_type="v100", time="0:10:00", memory="2G")
    assert (item["environment"], item["environment_title"]) == (
        "python-venv",
        "Python (virtual environment)",
    )
    assert item["mine"] and item["user"] == "ada" and item["job_id"] == only_job(demo, "ada")
    assert item["options"]["gpus"] == 1 and item["options"]["gpu_type"] == "v100"
    assert item["ending"] is None and item["suggestion"] is None
    assert item["links"] == {
        "open": "/user/ada/",
        "progress": None,
        "launch_again": None,
        "launch_suggested": None,
    }
    assert 400 < item["time_left"] <= 600
    assert item["efficiency"]["memory_asked"] == 2048
    assert not {"log", "log_path", "groups"} & item.keys()
    live = wait_until(
        "Slurm's word of its GPU", lambda: (one := items(ada)[0])["gpu_indexes"] and one
    )
    (node,) = live["nodes"]
    assert len(live["gpu_indexes"][node]) == 1
    log = ask(ada, f"sessions/{item['id']}/log")
    assert log.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "ServerApp" in log.text and ada.token not in log.text
    assert ask(ada, f"sessions/{item['id']}").json()["log"]
    assert ask(ada, f"sessions/{item['id']}?log=false").json()["log"] is None


def test_stopped_by_oneself(ada: Person, grace: Person) -> None:
    item = launch(ada, gpus=1)
    ada.stop()
    found = ended(ada, item["id"])
    assert found["ending"] == {
        "code": "stopped",
        "title": "Stopped",
        "words": "You stopped the session.",
        "stopped_by": "ada",
    }
    # One look may find both the start and the answer; Slurm tells the end in whole seconds.
    assert found["started_at"] <= found["ready_at"] <= found["ended_at"]
    assert found["links"]["open"] is None
    assert found["links"]["launch_again"].startswith("/hub/spawn?opt-environment=python-venv&opt-g")
    assert "opt-gpus=1" in found["links"]["launch_again"]
    page = ada.page(found["links"]["launch_again"])
    assert "Python (virtual environment)" in page
    seen = ask(grace, f"sessions/{item['id']}").json()
    assert seen["ending"]["words"] == "ada stopped the session." and not seen["mine"]
    assert set(seen["links"].values()) == {None}


def test_stopped_by_an_admin(ada: Person, grace: Person) -> None:
    item = launch(ada)
    answer = ask(grace, f"sessions/{item['id']}/stop", "POST", json={"reason": "a test"})
    assert answer.status_code == 200, answer.text
    words = ended(ada, item["id"])["ending"]["words"]
    assert words == "An administrator (grace) stopped the session: a test"
    seen = ask(grace, f"sessions/{item['id']}?log=false").json()
    assert seen["ending"]["words"] == "You stopped the session: a test"


def test_cancelled_in_slurm(demo: Any, ada: Person) -> None:
    item = launch(ada)
    demo.run(["scancel", item["job_id"]], user=demo.user("ada"))
    ending = ended(ada, item["id"])["ending"]
    assert ending["code"] == "cancelled"
    if demo.people:
        assert ending["words"] == "The job was cancelled in Slurm (scancel) by you."


@pytest.mark.skipif(os.geteuid() != 0, reason="everyone is one account without root")
def test_cancelled_in_slurm_by_root(demo: Any, ada: Person) -> None:
    item = launch(ada)
    demo.run(["scancel", item["job_id"]])
    words = ended(ada, item["id"])["ending"]["words"]
    assert words == "The job was cancelled in Slurm (scancel) by an administrator (root)."


def test_out_of_memory(demo: Any, ada: Person) -> None:
    item = launch(ada, memory="400M")
    # In the foreground: Slurm's linuxproc tracking loses what outlives its parent.
    hog = "python3 -c 'import time; x = bytes([1]) * 10**9; time.sleep(99)'"
    terminal(ada, hog, wait=False)
    found = ended(ada, item["id"])
    assert found["ending"]["code"] == "out_of_memory"
    assert "Requested: 400 MB. Peak:" in found["ending"]["words"]
    efficiency = found["efficiency"]
    assert efficiency["memory_asked"] == 400 and efficiency["memory_peak"] > 400
    assert efficiency["memory_source"] == "slurm"
    assert found["suggestion"]["changes"].keys() == {"memory"}
    # How far it came before Slurm looked is another thing each time.
    suggested = found["suggestion"]["changes"]["memory"]
    assert suggested in ("1G", "2G", "3G", "4G")
    assert int(suggested[:-1]) * 1024 > efficiency["memory_peak"]
    assert (
        f"opt-memory={found['suggestion']['changes']['memory']}"
        in (found["links"]["launch_suggested"])
    )


@pytest.fixture
def hostile(demo: Any) -> Iterator[str]:
    """An environment whose server writes what nobody should show as it is, and fails."""
    place = demo.home.root / "hostile"
    python = place / "bin/python3"
    python.parent.mkdir(parents=True, exist_ok=True)
    (place / "words").write_bytes(HOSTILE.encode() + " caf\u00e9\n".encode("latin-1"))
    python.write_text(f"#!/bin/sh\ncat {place}/words\nexit 3\n")
    for path in (place, python.parent, python, place / "words"):
        path.chmod(0o755)
    file = demo.environments / "hostile.yaml"
    file.write_text(f"name: hostile\ntitle: Hostile\nkind: venv\npath: {place}\n")
    file.chmod(0o644)
    yield "hostile"
    file.unlink()


def test_a_start_that_failed_shows_its_log_as_text(ada: Person, hostile: str) -> None:
    wait_until(
        "the catalog has the new file",
        lambda: "environment with this name" not in ada.launch({"environment": hostile}).text,
    )
    found = wait_until(
        "the failed start is recorded",
        lambda: (
            (newest := items(ada)[0])["environment"] == hostile
            and newest["state"] == "ended"
            and newest
        ),
        timeout=90,
    )
    assert found["ending"]["code"] == "start_failed"
    assert "could not start: its server exited with code 3" in found["ending"]["words"]
    answer = ask(ada, f"sessions/{found['id']}/log")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for text in (answer.text, ask(ada, f"sessions/{found['id']}").json()["log"]):
        assert "<script>alert(1)</script>\nred\n" in text
        assert "exe\ufffdtxt.png nul &amp; café caf\ufffd" in text
        assert not set("\x1b\x00\x07\u202e") & set(text)


def test_anothers_session_is_not_there(ada: Person, barbara: Person, grace: Person) -> None:
    item = launch(barbara)
    since = time.time() - 1
    for path in (f"sessions/{item['id']}", f"sessions/{item['id']}/log"):
        answer = ask(ada, path)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "You have no such session."
        # The same words as for one that does not exist.
        assert ask(ada, path.replace(item["id"], "nothing")).json() == answer.json()
    for path in ("sessions?user=barbara", "sessions?all=true", "sessions.csv?all=true"):
        answer = ask(ada, path)
        assert answer.status_code == 403, path
    assert all(one["mine"] for one in items(ada))
    assert item["id"] not in str(items(ada))
    lines = items(grace, f"audit?actor=ada&action=denied&since={since}&limit=50")
    targets = [(line["target"], line["owner"], line["outcome"]) for line in lines]
    assert targets.count((f"session {item['id']}", "barbara", "refused")) == 2
    assert targets.count(("session nothing", "", "refused")) == 2
    assert ("api/v1/sessions", "", "refused") in targets
    # Who may, does; and reading another's log leaves a line.
    assert [one["id"] for one in items(grace, "sessions?user=barbara&ended=false")] == [item["id"]]
    assert item["id"] in [one["id"] for one in items(grace, "sessions?all=true&state=running")]
    assert ask(grace, f"sessions/{item['id']}?log=false").json()["user"] == "barbara"
    assert items(grace, f"audit?actor=grace&action=read-log&since={since}") == []
    assert "ServerApp" in ask(grace, f"sessions/{item['id']}/log").text
    (line,) = items(grace, f"audit?actor=grace&action=read-log&since={since}")
    assert (line["target"], line["owner"]) == (f"session {item['id']}", "barbara")


def test_lists_are_filtered_sorted_and_paged(ada: Person) -> None:
    everything = ask(ada, "sessions?limit=500").json()
    assert everything["total"] == len(everything["items"]) and everything["next"] is None
    assert [one["submitted_at"] for one in everything["items"]] == sorted(
        (one["submitted_at"] for one in everything["items"]), reverse=True
    )
    seen: list[str] = []
    after = ""
    while after is not None:
        answer = ask(ada, f"sessions?limit=2{'&after=' + after if after else ''}").json()
        seen += [one["id"] for one in answer["items"]]
        after = answer["next"]
    assert seen == [one["id"] for one in everything["items"]]
    assert all(one["state"] == "ended" for one in items(ada, "sessions?ended=true"))
    assert items(ada, "sessions?environment=nowhere") == []
    assert items(ada, f"sessions?since={time.time() + 60}") == []
    for wrong in ("sort=log", "limit=0", "state=gone", "since=nan", "colour=red", "after=x"):
        assert ask(ada, f"sessions?{wrong}").status_code == 400, wrong
    csv = ask(ada, "sessions.csv")
    assert csv.headers["Content-Type"].startswith("text/csv")
    assert len(csv.text.splitlines()) == everything["total"] + 1
    assert csv.text.startswith("id,user,server,environment")


def test_walltime(short_session: Person) -> None:
    newest = items(short_session)[0]
    found = ended(short_session, newest["id"], timeout=150)
    assert found["ending"]["code"] == "walltime"
    assert "reached its time limit of 1 min." in found["ending"]["words"]
    assert found["suggestion"]["changes"] == {"time": "1:00:00"}
    assert found["efficiency"]["time_used"] == pytest.approx(60, abs=40)


def test_usage_counts_what_a_job_held(
    demo: Any, gpu_job: tuple[str, str, float], ada: Person, grace: Person
) -> None:
    user, job_id, before = gpu_job
    seconds = wait_until("the job has ended", lambda: elapsed(demo, job_id), timeout=180)
    assert seconds >= 20
    wait_until(
        "the whole job is accounted",
        lambda: held(grace, user) - before >= 2 * seconds - 0.5,
        timeout=180,
    )
    if demo.people:  # else the one account has other jobs too
        assert held(grace, user) - before == pytest.approx(2 * seconds, abs=4)
    (found,) = [one for one in items(grace, "usage?by=user&period=month") if one["key"] == user]
    assert 0 < found["measured_share"] <= 1
    assert found["used_hours"] is not None
    assert ask(grace, "usage?by=user").json()["simulated"] is True
    for by in ("group", "environment", "course", "account"):
        assert items(grace, f"usage?by={by}&period=week"), by
    groups = {one["key"] for one in items(grace, "usage?by=environment")}
    assert "python-venv" in groups and "" in groups
    csv = ask(grace, "usage.csv?by=user").text.splitlines()
    assert csv[0].startswith("key,period,jobs,held_hours")
    # Everyone sees their own, and nobody else's.
    mine = ask(ada, "usage/mine?period=month").json()
    assert "python-venv" in [one["key"] for one in mine["items"]]
    assert ask(ada, "usage/mine.csv").status_code == 200
    since = time.time() - 1
    for path in ("usage", "usage.csv", "usage?by=group"):
        assert ask(ada, path).status_code == 403
    assert len(items(grace, f"audit?actor=ada&action=denied&since={since}")) == 3
    for wrong in ("by=colour", "period=year", "start=9&end=1", "start=1e999", "start=0"):
        assert ask(grace, f"usage?{wrong}").status_code == 400, wrong


def test_the_efficiency_of_a_session_is_measured(ada: Person, grace: Person) -> None:
    """The session of the first tests, once the minute is written."""
    found = wait_until(
        "a session with measured GPU time",
        lambda: [
            one
            for one in items(grace, "sessions?user=ada&ended=true&limit=500")
            if one["efficiency"]["gpu_busy_share"] is not None
        ],
        timeout=120,
    )
    efficiency = found[0]["efficiency"]
    assert efficiency["gpu_source"] == "simulated"
    assert 0 <= efficiency["gpu_busy_share"] <= 1
    assert efficiency["gpu_hours_used"] <= efficiency["gpu_hours_held"]
