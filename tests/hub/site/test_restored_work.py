"""A restore that is older than what runs: each job is adopted or can be ended, and it is said
which; with the demo's own Hub and service, for sessions, kernels, runs and endpoints."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import checkout
import pytest
from api_client import Caller
from hub_client import Person, wait_until
from installed_hub import InstalledHub, without_own_hub
from jobs import living_jobs, nothing_left
from outages import without
from people_at_work import ID, POINT, RUN, Work
from played_points import played_python

PASSPHRASE = "correct horse battery staple"
CONFIG = f"--config={checkout.ROOT}/deploy/demo/jupyterhub_config.py"
LAUNCH = {"environment": "python-venv", "gpus": 0, "cpus": 1, "memory": "300M"}


@pytest.fixture
def backups() -> Iterator[Path]:
    """A folder for a backup and its passphrase, which the demo sees too."""
    with tempfile.TemporaryDirectory(prefix="pt-", dir="/var/tmp") as folder:
        key = Path(folder) / "passphrase"
        key.write_text(PASSPHRASE)
        key.chmod(0o600)
        yield Path(folder)


def portal(demo: Any, variables: dict[str, str], backups: Path, command: str, *words: str) -> str:
    """Run a command where the demo's Hub has its files and variables."""
    env = variables | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    argv = ["env", f"--chdir={demo.words['hub_directory']}", sys.executable, "-m", "portal"]
    argv += [command, f"--passphrase-file={backups}/passphrase", *words, str(backups / "one.tar")]
    return str(demo.run(argv, env=env, timeout=120).stdout)


def test_what_is_newer_than_the_backup_is_adopted_or_can_be_ended(
    demo: Any, backups: Path, tmp_path: Path
) -> None:
    nothing_left(demo, "ada")
    with played_python(demo, "gated", POINT) as folder, without_own_hub(demo) as variables:

        def start() -> InstalledHub:
            hub = InstalledHub(demo, variables, checkout.ROOT, tmp_path / "log")
            wait_until("the Hub answers", hub.answers)
            return hub

        hub = start()
        try:
            work = Work(demo, folder)
            try:
                work.begin_session()
                (session,) = [job.id for job in living_jobs(demo, "ada")]
                portal(demo, variables, backups, "backup", CONFIG)
                work.begin_jobs()
                hub.stop()
                with without(demo, "gateway"):
                    told = portal(demo, variables, backups, "restore")
                hub = start()
                judged(work, told, session)
            finally:
                work.leave()
        finally:
            hub.stop()


def judged(work: Work, told: str, session: str) -> None:
    """The session goes on; of each other job the restore has said what the Hub does with it, and
    the Hub does it."""
    assert "1 jobs of sessions run or wait that the Hub knows." in told
    wait_until("the session is back", lambda: work.ada.server().get("ready"))
    assert work.kernel.run("kept + 1").shown == ["42"], "adopted, with its open websocket"
    newer = {job.partition("_")[0] for job in work.jobs} - {session}
    assert f"{len(newer)} jobs are newer than the backup:" in told and len(newer) == 3
    ada = work.callers["ada"]

    def shown() -> Any:
        items = {item["job_id"]: item for item in ada.items("sessions", ended="false")}
        return items if newer <= items.keys() else None

    items = wait_until("the Sessions page shows them", shown, 90)
    names = {items[job]["server"]: job for job in newer}
    assert {name.partition("-")[0] for name in names} == {"kernel", "run", "ep"}, names
    assert {f"run-{RUN.replace('-', '')[:20]}", f"kernel-{ID.replace('-', '')[:20]}"} <= {*names}
    for name, job in names.items():
        assert f"Job {job} of ada, session '{name}': the Hub shows it on the Sessions page." in told
        assert items[job]["state"] == "running"
        answer = ada.post(f"sessions/{items[job]['id']}/stop", json={})
        assert answer.is_success, answer.text

    def left() -> set[str]:
        return {job.id.partition("_")[0] for job in living_jobs(work.demo, "ada")}

    wait_until("they have ended, and the session goes on", lambda: left() == {session})


def test_a_backup_that_is_taken_during_a_class_start(
    demo: Any, backups: Path, tmp_path: Path
) -> None:
    """Of each student's job, the restore says whether the Hub knows it; none is forgotten."""
    names = [f"student{number:02}" for number in range(3, 9)]
    with without_own_hub(demo) as variables:
        log = tmp_path / "log"
        hub = InstalledHub(demo, variables, checkout.ROOT, log)
        try:
            wait_until("the Hub answers", hub.answers)
            people = [Person(demo.url, name) for name in names]
            for person in people:
                assert person.api("GET", "/user").is_success
            with ThreadPoolExecutor(len(people)) as pool:
                launched = [pool.submit(person.launch, LAUNCH) for person in people]
                wait_until("the first has a job", lambda: jobs_of(demo, names), every=0.05)
                portal(demo, variables, backups, "backup", CONFIG)
            assert {each.result().status_code for each in launched} <= {201, 202}
            for person in people:
                person.wait_ready()
            jobs = jobs_of(demo, names)
            assert len(jobs) == len(names)
            hub.stop()
            with without(demo, "gateway"):
                told = portal(demo, variables, backups, "restore")
            newer = set(re.findall(r"^  Job (\d+) of student", told, re.M))
            assert newer <= jobs and f"{len(jobs - newer)} jobs of sessions run or wait" in told
            hub = InstalledHub(demo, variables, checkout.ROOT, log)
            wait_until("the Hub answers", hub.answers)
            with Caller(demo.url, "grace") as grace:

                def listed() -> bool:
                    items = [
                        item
                        for name in names
                        for item in grace.items("sessions", user=name, ended="false")
                    ]
                    return jobs <= {item["job_id"] for item in items}

                wait_until("all are on the Sessions page", listed, 90)
            assert jobs_of(demo, names) == jobs, "none was started twice"
        finally:
            hub.stop()
            for name in names:
                ids = [job.id for job in living_jobs(demo, name)]
                demo.run(["scancel", *ids], user=demo.user(name), check=False)
                nothing_left(demo, name)


def jobs_of(demo: Any, names: list[str]) -> set[str]:
    return {job.id for name in names for job in living_jobs(demo, name)}
