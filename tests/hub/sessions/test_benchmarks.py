"""Benchmarks on the real demo: shipped scripts as runs of an admin; the results are the site's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from terminal import terminal

STARTERS = Path(__file__).resolve().parents[3] / "deploy/environments/starters"
FILES = ("benchmark_results.py", "collectives.py", "storage.py")
ENVIRONMENT = "python-venv"
# Where Debian's python3-torch is, for the virtual environment of the session.
SYSTEM = "/usr/lib/python3/dist-packages"
QUICK = {
    "storage": "--set size=1048576 --set seconds=0.05 --set repeats=1 --set local=",
    "collectives": "--set ranks=2 --set largest=4096",
}


@pytest.fixture
def grace(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Grace, an admin, in a session with a simulated GPU."""
    nothing_left(demo, "grace")
    options = {"environment": ENVIRONMENT, "gpus": 0, "time": "1:00:00"}
    yield from with_session(person("grace"), options)
    nothing_left(demo, "grace")


def _started(grace: Person, caller: Caller, script: str) -> str:
    """Start a run of a shipped script; return its id."""
    command = f"portal-run measure/{script}.py --gpus 1 --cpus 2 --memory 2G {QUICK[script]}"
    said = wait_until(
        "the portal knows the session",
        lambda: (text := terminal(grace, command)) and "Results:" in text and text,
    )
    assert f"Run '{script}': 1 point" in said, said
    runs = caller.get("runs").json()["items"]
    return str(next(run["id"] for run in runs if run["name"] == script))


def _taken(caller: Caller, run: str) -> dict[str, Any]:
    """Wait until the results of a run were read; return what the portal says of it."""

    def added() -> Any:
        items = caller.get("benchmarks/runs").json()["items"]
        (found,) = (each for each in items if each["run"] == run)
        return found["taken_at"] and found

    found: dict[str, Any] = wait_until("its results were read", added, timeout=240, every=2)
    return found


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio (deploy/packages-test.txt)")
@pytest.mark.skipif(not Path(SYSTEM, "torch").is_dir(), reason="needs python3-torch")
def test_results_of_shipped_scripts_are_on_the_page(
    demo: Any, grace: Person, person: Callable[[str], Person]
) -> None:
    terminal(grace, "rm -rf measure; mkdir measure")
    for name in FILES:
        text = (STARTERS / name).read_text()
        model = {"type": "file", "format": "text", "content": text}
        assert grace.session("PUT", f"api/contents/measure/{name}", json=model).is_success
    packages = "import site; print(site.getusersitepackages())"
    place = terminal(grace, f"python3 -c '{packages}'").strip().splitlines()[-1]
    terminal(grace, f"mkdir -p {place}; echo {SYSTEM} > {place}/system-torch.pth")
    with Caller(demo.url, "grace") as caller:
        own = [run["id"] for run in caller.get("benchmarks/runs").json()["own"]]
        runs = {script: _started(grace, caller, script) for script in QUICK}
        offered = {run["id"] for run in caller.get("benchmarks/runs").json()["own"]}
        assert set(runs.values()) <= offered - set(own)
        for run in runs.values():
            answer = caller.put(f"benchmarks/runs/{run}", json={"renew": False})
            assert answer.status_code == 200, answer.text
        for run in runs.values():
            taken = _taken(caller, run)
            assert taken["problem"] == "", (taken, caller.get(f"runs/{run}/points").text)

    with Caller(demo.url, "ada") as ada:  # who may see the environment sees its results
        rows = ada.items("benchmarks", environment=ENVIRONMENT, limit=100)
        storage = [row for row in rows if row["benchmark"] == "storage"]
        assert {row["name"] for row in storage} >= {"read sequential", "write 4K depth 32"}
        assert all((row["gpu_type"], row["simulated"]) == ("", False) for row in storage)
        exchanged = [row for row in rows if row["benchmark"] == "collectives"]
        assert {row["name"] for row in exchanged} >= {"all-reduce latency", "broadcast bandwidth"}
        simulated = demo.words["simulated_gpus"]
        assert {row["simulated"] for row in exchanged} == {simulated}
        assert all(row["gpu_type"] and row["nodes"] for row in exchanged), exchanged
        assert all(row["share"] is None for row in rows)
        # Only curators say what the site's results are.
        assert ada.get("benchmarks/runs").status_code == 403
        for answer in (
            ada.put(f"benchmarks/runs/{runs['storage']}", json={}),
            ada.delete(f"benchmarks/runs/{runs['storage']}", params={"owner": "grace"}),
        ):
            assert answer.status_code == 403, answer.text
        page = person("ada").page("/services/portal/benchmarks")
        assert "GPUs by their data sheets" in page and "NVIDIA H100 SXM5" in page

    with Caller(demo.url, "grace") as caller:
        for run in runs.values():
            assert caller.delete(f"benchmarks/runs/{run}").status_code == 200
            assert caller.delete(f"benchmarks/runs/{run}").status_code == 404
        assert caller.items("benchmarks", environment=ENVIRONMENT) == []
    terminal(grace, f"rm -f {place}/system-torch.pth")
