"""A work of a site's own: a package outside of the portal's tree, which a setting names. Its
replicas are kept running through a killed job, and while the Hub is away."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller
from conftest import ROOT, Demo, a_home, started_demo
from hub_client import wait_until

from portal.demo.daemons.ports import free_port

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
ID = "5e2f3c1a0b7d4c8e9a6f"
SETTINGS = """
import sys
sys.path.append({packages!r})
c.Works.names = ["workers"]
c.Replicas.per_user = 3
"""
ENTRY_POINTS = "[data_scientist_portal.works]\nworkers = portal_workers:FEATURE\n"


def install(packages: Path) -> None:
    """Install the site's package as pip would: its code, and the metadata with its entry points."""
    shutil.copytree(ROOT / "tests/support/works/portal_workers", packages / "portal_workers")
    info = packages / "portal_workers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: portal-workers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    for path in (packages, *packages.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture(scope="module")
def site() -> Iterator[Demo]:
    with a_home() as place, pytest.MonkeyPatch.context() as patch:
        place.chmod(0o755)
        packages, settings = place / "packages", place / "settings"
        packages.mkdir()
        settings.mkdir()
        settings.chmod(0o755)
        install(packages)
        (settings / "works.py").write_text(SETTINGS.format(packages=str(packages)))
        (settings / "works.py").chmod(0o644)
        patch.setenv("PORTAL_CONFIG_D", str(settings))
        with started_demo(f"--port={free_port()}", place=place) as demo:
            yield demo


def running(ada: Caller) -> dict[int, str]:
    """Return the job ids of the replicas that run, by number."""
    found = ada.get(f"replica-sets/{ID}").json()
    return {
        replica["number"]: replica["job_id"]
        for replica in found["running"]
        if replica["state"] == "running"
    }


def both(ada: Caller) -> dict[int, str]:
    wait_until("two replicas run", lambda: set(running(ada)) == {0, 1}, 90)
    return running(ada)


def test_replicas_are_kept_running(site: Demo) -> None:
    ada = Caller(site.url, "ada")
    assert ada.get("workers").json() == {"message": "Workers of ada."}
    options = {"environment": "python-venv", "cpus": 1, "memory": "1G", "time": "1:00:00"}
    wanted = {"work": "workers", "replicas": 2, "options": {**options, "workers": {"seconds": 900}}}
    answer = ada.put(f"replica-sets/{ID}", json=wanted)
    assert answer.status_code == 200, answer.text
    first = both(ada)

    site.run(["scancel", first[0]], user="ada")
    wait_until("another job", lambda: running(ada).get(0, first[0]) != first[0], 90)
    second = both(ada)
    assert second[1] == first[1], "the other one was left alone"

    site.control("kill", "hub")
    site.run(["scancel", second[1]], user="ada")
    site.control("start", "hub")
    wait_until("the Hub answers", lambda: ada.person.http.get("/hub/health").status_code == 200, 90)
    again = Caller(site.url, "ada")
    wait_until("a new job", lambda: running(again).get(1, second[1]) != second[1], 120)
    third = both(again)
    assert third[0] == second[0], "it ran on while the Hub was away"

    fewer = again.put(f"replica-sets/{ID}", json={**wanted, "replicas": 1})
    assert fewer.status_code == 200, fewer.text
    wait_until("one replica is stopped", lambda: set(running(again)) == {0}, 60)
    assert running(again)[0] == third[0]
    time.sleep(6)  # more than a look of the reconciler
    assert set(running(again)) == {0}
    logs = [path.read_text() for path in (site.home.demo / "sessions").iterdir()]
    assert sum("worker 0\n" in text for text in logs) == 2

    assert again.delete(f"replica-sets/{ID}").status_code == 200
    gone = lambda: again.get(f"replica-sets/{ID}").status_code == 404  # noqa: E731
    wait_until("the set is gone", gone, 60)
    assert site.run(["squeue", "--noheader", "--user=ada"]).stdout == ""


def test_what_cannot_be_is_refused_in_words(site: Demo) -> None:
    ada = Caller(site.url, "ada")

    def refused(status: int, **changes: Any) -> str:
        body = {"work": "workers", "replicas": 1, "options": {"environment": "python-venv"}}
        answer = ada.put(f"replica-sets/{ID}", json=body | changes)
        assert answer.status_code == status, answer.text
        return str(answer.json()["error"]["message"])

    assert (
        "'work' must be a kind with replicas: dask-worker, ray-worker, dask-scheduler, workers."
        in refused(400, work="run")
    )
    assert "The limit is 3." in refused(403, replicas=4)
    wrong = {"environment": "python-venv", "workers": {"seconds": 0}}
    assert "The 'seconds' of a replica set must be" in refused(400, options=wrong)
    assert "must be an object with 'course', 'id', 'number', 'project', 'seconds'" in refused(
        400, options={"workers": {"image": "x"}}
    )
    assert "'gpus' must be" in refused(400, options={"gpus": "many"})
    assert ada.get(f"replica-sets/{ID}").status_code == 404
    launch = ada.person.api("POST", "/users/ada/servers/workers-x", {"workers": {"id": ID}})
    assert launch.status_code == 400 and "must have the name" in launch.text
    path = f"/users/ada/servers/workers-{ID[:16]}-0"
    launch = ada.person.api("POST", path, {"workers": {"id": ID}})
    assert launch.status_code in (400, 403) and "has not recorded this replica" in launch.text
