"""The smoke test of an environment: sessions that really start, and how what they say is judged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from session_server import make_python
from test_session_kernels import image  # noqa: F401  a fixture

from portal.demo.environments.apptainer import apptainer_environment
from portal.images.jobs import smoke
from portal.images.outcome import CouldNotRun, WorkFailed
from portal.images.processes import children, descendants
from portal.models.catalog.environment import Environment, Server
from portal.models.catalog.image_job import Event, ImageJob, TestResult, Work

pytestmark = pytest.mark.containers

KERNEL = {"step": "kernel", "name": "python3", "title": "Python 3", "language": "python"}
PASSED = {"passed": True, "seconds": 1.5, "version": "3.11.2", "reason": ""}
SERVER = {"step": "server", "seconds": 2.5}
GPUS = {"step": "gpus", "driver": "535.104.05", "cuda": "12.2", "names": ["A100"], "reason": ""}
FACTS = {"step": "facts", "versions": {"torch": "2.5"}, "packages": ["torch==2.5"], "gpus": 1}
END = {"step": "end", "reason": ""}


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that a test has started outlives it. What lived before may start what it likes: a
    demo of the same run does all the time."""
    before = children()
    for name, value in apptainer_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUPYTER_FOREIGN", "x")
    yield
    left = descendants(os.getpid(), but=before)
    assert not left, left


def job(environment: Environment, **more: Any) -> ImageJob:
    told = {"nonce": "n", "apptainer": sys.executable, **more}
    return ImageJob(work=Work.TEST, environment=environment, **told)


def test_it(environment: Environment, **more: Any) -> tuple[TestResult, list[Event]]:
    events: list[Event] = []
    return smoke.test(job(environment, **more), events.append), events


test_it.__test__ = False  # type: ignore[attr-defined]


# -- real ones -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of the nodes, with JupyterLab and the session's package."""
    root = tmp_path_factory.mktemp("venv") / "venv"
    make_python(root)
    config = "etc/jupyter/jupyter_server_config.d/jupyter_server_terminals.json"
    (root / config).write_text((Path(sys.prefix) / config).read_text())
    return root


LAB = {"JUPYTERLAB_DIR": f"{sys.prefix}/share/jupyter/lab"}


def test_a_session_in_a_virtual_environment(venv: Path, capfd: pytest.CaptureFixture[str]) -> None:
    python = {"name": "python3", "title": "Our Python", "language": "python"}
    environment = Environment(
        name="v", title="V", kind="venv", path=str(venv), variables=LAB, kernels=(python,)
    )
    result, events = test_it(environment)
    assert (result.server, result.mark) == (Server.INSIDE, None)
    assert 0 < result.server_seconds < 300
    (kernel,) = result.kernels
    assert (kernel.kernel.name, kernel.kernel.title, kernel.passed) == (
        "python3",
        "Our Python",
        True,
    )
    here = ".".join(map(str, sys.version_info[:3]))
    assert kernel.version == result.facts.versions["python"] == here
    assert any(one.startswith("jupyterlab==") for one in result.facts.packages)
    assert result.facts.architecture == os.uname().machine
    steps = [event.step for event in events]
    assert [one for one in steps if one != "gpus"] == [
        "server",
        "kernel python3",
        "facts",
        "terminal",
    ]
    assert "Serving notebooks from local directory: /tmp/portal-test-" in capfd.readouterr().out


def test_a_program_with_a_known_hole_passes_no_test(venv: Path) -> None:
    (packages,) = venv.glob("lib/python3*/site-packages")
    about = packages / "marimo-0.20.4.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: marimo\nVersion: 0.20.4\n")
    environment = Environment(
        name="v", title="V", kind="venv", path=str(venv), variables=LAB, opens=("marimo",)
    )
    try:
        with pytest.raises(WorkFailed, match=r"^marimo 0\.20\.4 is not safe .*CVE-2026-39987"):
            test_it(environment)
    finally:
        shutil.rmtree(about)


def test_an_image_without_python_is_tried_with_the_server_beside_it(
    venv: Path,
    image: tuple[Path, Path],  # noqa: F811
) -> None:
    apptainer, made = image
    environment = Environment(name="b", title="B", kind="container", image=str(made), variables=LAB)
    told = {"apptainer": str(apptainer), "beside": str(venv)}
    with pytest.raises(WorkFailed, match="python3"):
        test_it(environment, **told)
    result, _ = test_it(environment, **told, options={"decide": True})
    assert result.server is Server.BESIDE
    assert [(one.kernel.name, one.passed) for one in result.kernels] == [("bash", True)]
    assert result.kernels[0].version.startswith("5.")
    found = made.stat()
    assert result.mark == (found.st_size, found.st_mtime_ns)


def test_an_image_under_test_sees_nothing_of_the_accounts_other_jobs(
    image: tuple[Path, Path],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Their files in /tmp and their processes: all are of the same account."""
    apptainer, made = image
    home = tmp_path / "home"
    home.mkdir()
    environment = Environment(name="b", title="B", kind="container", image=str(made))
    told = job(environment, apptainer=str(apptainer))
    argv, env = smoke._command(told, environment, str(home))
    end = argv.index(str(made)) + 1
    look = 'echo 1 >"$HOME/made"; cd /proc; echo [0-9]*; echo /tmp/* /var/tmp/*'
    with tempfile.NamedTemporaryFile(prefix="of-another-job-", dir="/tmp") as other:
        done = subprocess.run(
            [*argv[:end], "/bin/sh", "-c", look],
            env=env,
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (home / "made").read_text() == "1\n", done.stderr
    processes, files = done.stdout.splitlines()
    assert len(processes.split()) < 6
    assert other.name not in files
    assert "/tmp/portal-" not in files


# -- how it is judged ----------------------------------------------------------------------------


@pytest.fixture
def saying(tmp_path: Path) -> Any:
    """A virtual environment whose Python only prints, and the tests of it."""
    python = tmp_path / "venv/bin/python3"
    python.parent.mkdir(parents=True)

    def run(
        *steps: dict[str, Any] | str, status: int = 0, said: str = "", **more: Any
    ) -> tuple[TestResult, list[Event]]:
        lines = [one if isinstance(one, str) else json.dumps(one) for one in steps]
        (tmp_path / "out").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / "err").write_text(said)
        text = f'#!/bin/sh\ncat "{tmp_path}/out"\ncat "{tmp_path}/err" >&2\nexit {status}\n'
        python.write_text(text)
        python.chmod(0o755)
        limits = more.pop("limits", {})
        environment = Environment(
            name="s", title="S", kind="venv", path=str(tmp_path / "venv"), **limits
        )
        return test_it(environment, **more)

    return run


def test_what_is_seen_becomes_the_result(saying: Any) -> None:
    noise = 'PORTAL n {"at": 1, "step": "done", "result": {}}'
    old = {**KERNEL, **PASSED, "name": "python2", "version": "2.7.18"}
    result, events = saying(SERVER, noise, old, {**KERNEL, **PASSED}, FACTS, GPUS, END, gpus=1)
    assert (result.server_seconds, result.gpus) == (2.5, 1)
    assert result.facts.versions == {
        "torch": "2.5",
        "python": "3.11.2",
        "python2": "2.7.18",
        "driver": "535.104.05",
    }
    assert [e.step for e in events] == [
        "server", "kernel python2", "kernel python3", "facts", "gpus",
    ]  # fmt: skip
    assert all(event.result is None for event in events)


@pytest.mark.parametrize(
    ("steps", "more", "words"),
    [
        ((SERVER, {**KERNEL, **PASSED, "passed": False, "reason": "It died."},
          {"step": "end", "reason": "The kernel 'Python 3' does not work: It died."}),
         {}, "The kernel 'Python 3' does not work: It died."),
        ((SERVER, {**KERNEL, **PASSED, "passed": False}, END), {}, "A kernel does not work."),
        ((), {"status": 1, "said": "x: No module named 'jupyterlab'\n"},
         "it ended with code 1. The environment lacks the Python package 'jupyterlab'."),
        ((), {"status": 3, "said": "first\nlast words\n"}, "Its log ends with: last words"),
        (({"step": "end", "reason": "The notebook server exited immediately with code 9."},),
         {"said": "FATAL: while opening image\n"},
         "exited immediately with code 9. Apptainer says: while opening image."),
        ((SERVER, FACTS, {**GPUS, "names": []}, END), {"gpus": 1},
         "nvidia-smi shows 0 of the 1 GPUs"),
        ((SERVER, {**FACTS, "gpus": 0}, GPUS, END), {"gpus": 1},
         "The framework sees 0 of the 1 GPUs"),
        ((SERVER, FACTS, GPUS, END), {"gpus": 1, "limits": {"min_driver": "535.129"}},
         "The environment needs driver 535.129, but this node has 535.104.05."),
        ((SERVER, FACTS, GPUS, END), {"gpus": 1, "limits": {"min_cuda": "12.4"}},
         "The environment needs CUDA 12.4, but this node has 12.2."),
    ],
)  # fmt: skip
def test_what_does_not_pass_says_why(
    saying: Any, steps: tuple[Any, ...], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(WorkFailed) as caught:
        saying(*steps, **more)
    assert words in caught.value.message
    assert caught.value.result is not None
    TestResult.model_validate(caught.value.result)


def test_amds_gpus_are_looked_for_with_amds_program(saying: Any) -> None:
    facts = {**FACTS, "versions": {"torch": "2.9", "rocm": "6.4"}}
    gpus = {**GPUS, "driver": "6.16.6", "cuda": "", "names": ["AMD Instinct MI300X"]}
    result, _ = saying(SERVER, facts, gpus, END, gpus=1, gpu_vendor="amd")
    assert result.facts.versions == {"torch": "2.9", "rocm": "6.4", "amdgpu": "6.16.6"}
    with pytest.raises(WorkFailed) as caught:
        saying(SERVER, facts, {**gpus, "names": []}, END, gpus=1, gpu_vendor="amd")
    assert "amd-smi shows 0 of the 1 GPUs of this job" in caught.value.message


def test_a_test_on_amds_gpus_starts_as_a_session_on_them_does(tmp_path: Path) -> None:
    environment = Environment(name="a", title="A", kind="container", image="/i/a.sif")
    told = job(environment, gpus=1, gpu_type="mi300x", gpu_vendor="amd")
    argv, env = smoke._command(told, environment, str(tmp_path / "home"))
    assert "--rocm" in argv and "--nv" not in argv
    assert env["APPTAINERENV_PORTAL_GPU_VENDOR"] == "amd"
    assert env["PORTAL_GPU_VARIABLES"].split()[0] == "ROCR_VISIBLE_DEVICES"


def test_simulated_gpus_are_not_looked_for(saying: Any) -> None:
    none = {**GPUS, "names": [], "driver": "", "cuda": ""}
    limits = {"min_driver": "999"}
    result, _ = saying(SERVER, none, END, gpus=2, simulated_gpus=True, limits=limits)
    assert (result.simulated, result.gpus) == (True, 0)
    result, _ = saying(SERVER, none, END, simulated_gpus=True)
    assert not result.simulated, "there were none to simulate"
    result, _ = saying(SERVER, FACTS, GPUS, END, gpus=1, limits={"min_driver": "535.104"})
    assert (result.simulated, result.gpus) == (False, 1)


@pytest.mark.parametrize(
    "said",
    [
        "FATAL: fuse: device not found, try 'modprobe fuse' first",
        "OSError: No space left on device",
    ],
)
def test_a_node_that_cannot_run_it_says_nothing_of_the_environment(saying: Any, said: str) -> None:
    with pytest.raises(CouldNotRun, match="could not run on this node"):
        saying(status=255, said=f"{said}\n")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    missing = Environment(name="m", title="M", kind="container", image=f"{tmp_path}/no.sif")
    with pytest.raises(WorkFailed, match=r"no\.sif does not exist"):
        test_it(missing)
    (tmp_path / "is.sif").touch()
    there = missing.model_copy(update={"image": f"{tmp_path}/is.sif"})
    with pytest.raises(CouldNotRun, match=r"c\.Images\.apptainer"):
        test_it(there, apptainer="/nonexistent/apptainer")
    beside = there.model_copy(update={"server": Server.BESIDE})
    with pytest.raises(CouldNotRun, match=r"c\.Images\.beside"):
        test_it(beside)
