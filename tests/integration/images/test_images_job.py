"""The program of a build job, as an ordinary user, with a real registry and a real Apptainer: to
its end, ended, killed, and asked again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import images
import pytest
from image_builds import (
    NOBODY,
    NONCE,
    PROGRAM,
    REPOSITORY,
    build_job,
    give,
    limited_root,
    mirror,
    program,
    start,
)
from machine import patience
from machine_clock import awake
from registry import Registry, registry

from portal.images.apptainer.apptainer import Apptainer
from portal.images.jobs.building import finished
from portal.images.log_protocol import read_events
from portal.models.catalog.environment import Server
from portal.models.catalog.image_job import BuildResult, Event, ImageJob

pytestmark = pytest.mark.containers

SOURCE = f"docker://nvcr.io/{REPOSITORY}"
OCI = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="image-job-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[Registry]:
    with registry() as found:
        yield found


@pytest.fixture(scope="module")
def job(place: Path, server: Registry) -> ImageJob:
    digest = server.push(REPOSITORY, "1", images.small())
    return build_job(
        give(place / "images"),
        f"{SOURCE}@{digest}",
        digest,
        registries_conf=mirror(server, place / "registries.conf"),
        size=30_000_000,
    )


@pytest.fixture(scope="module")
def story(place: Path, server: Registry, job: ImageJob) -> dict[str, object]:
    """Three builds of the same: one is killed while it installs, one is ended while it looks into
    the image, one comes to its end. What each left, and what was asked of the registry."""
    home, found = give(place / "home"), {}
    directory = Path(job.directory)
    ends = (("killed", signal.SIGKILL, "install"), ("ended", signal.SIGTERM, "probe"))
    for name, number, step in ends:
        log = place / f"{name}.log"
        process = start(job, home, log)
        _until(lambda log=log, step=step: _at(log, step), process)
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        found[name] = (process.wait(60), _files(directory), _events(log)[0])
    log = place / "built.log"
    process = start(job, home, log)
    found["built"] = (process.wait(580), _files(directory), _events(log)[0])
    manifest = server.ask("GET", f"/v2/{REPOSITORY}/manifests/1", headers={"Accept": OCI})
    (layer,) = manifest.json()["layers"]
    found["size of the layer"], found["pulls"] = layer["size"], server.delivered(layer["digest"])
    found["log"] = log.read_text()
    return found


def test_a_killed_build_leaves_no_image(story):
    status, files, events = story["killed"]
    assert status == -signal.SIGKILL
    assert len([name for name in files if name.startswith(".build-")]) >= 1
    assert not [name for name in files if name.endswith(".sif")]
    assert events[-1].result is None and not events[-1].error


def test_an_ended_build_says_so_and_leaves_nothing(story, job):
    status, files, events = story["ended"]
    assert status == 1
    assert events[-1].error == "The job was cancelled or reached its time limit."
    assert files == [".cache"]  # also what the killed one left is gone


def test_the_next_try_goes_on_from_the_cache(story):
    first, *others = story["pulls"]
    assert first == story["size of the layer"]
    assert all(size < first // 4 for size in others)


def test_the_build_comes_to_its_end(story, job):
    status, files, events = story["built"]
    assert status == 0, story["log"][-3000:]
    name = Path(job.target).name
    assert files == sorted([".cache", name, name.replace(".sif", ".json")])
    steps = list(dict.fromkeys(event.step for event in events))
    assert steps == ["prepare", "pull", "probe", "install", "write", "verify", "done"]
    result = BuildResult.model_validate(events[-1].result)
    assert result == finished(Path(job.target))
    assert result.server is Server.INSIDE
    assert result.python == "/opt/data-scientist-portal/bin/python3"
    assert {"python3", "bash"} <= {kernel.name for kernel in result.kernels}
    assert any(one.startswith("ipykernel==") for one in result.facts.added)
    assert result.facts.versions["python"].startswith("3.")
    assert "Debian" in result.facts.distribution
    assert Path(job.target).stat().st_mode & 0o777 == 0o644
    if os.geteuid() == 0:
        assert Path(job.target).stat().st_uid == NOBODY


def test_the_log_shows_no_address_of_an_index(story):
    assert NONCE in story["log"]
    _, plain = read_events(story["log"], NONCE)
    assert any("Build complete" in line for line in plain)
    assert not [line for line in plain if NONCE in line or "/simple" in line]


def test_asked_again_the_finished_image_is_taken(story, place, job):
    log = place / "again.log"
    before = Path(job.target).stat()
    started = awake()
    assert start(job, place / "home", log).wait(60) == 0
    assert awake() - started < 30
    events = _events(log)[0]
    assert BuildResult.model_validate(events[-1].result) == finished(Path(job.target))
    assert Path(job.target).stat().st_mtime_ns == before.st_mtime_ns
    assert "pull" not in {event.step for event in events}


def test_the_images_python_and_the_portals_are_apart(story, job, monkeypatch):
    for name, value in limited_root().items():
        monkeypatch.setenv(name, value)
    apptainer = Apptainer(str(program()), log=lambda line: None)
    prefix = "/opt/data-scientist-portal"
    code = (
        "import importlib.util as u, json, sys; "
        "print(json.dumps([sys.prefix, bool(u.find_spec('jupyterlab'))]))"
    )
    own = apptainer.execute(job.target, ["python3", "-c", code])
    assert json.loads(own.text.splitlines()[-1])[1] is False
    theirs = apptainer.execute(job.target, [f"{prefix}/bin/python3", "-I", "-c", code])
    assert json.loads(theirs.text.splitlines()[-1]) == [prefix, True]
    spec = apptainer.execute(
        job.target, ["cat", f"{prefix}/share/jupyter/kernels/python3/kernel.json"]
    )
    argv = json.loads(spec.text)["argv"]
    assert argv[0] == "/usr/bin/python3"
    said = apptainer.execute(job.target, [*argv[:-2], "--version"])
    assert said.returncode == 0, said.text
    script = apptainer.execute(job.target, ["head", "-n", "1", f"{prefix}/bin/jupyter-lab"])
    assert script.text.strip() == f"#!{prefix}/bin/python3"


def test_nothing_on_the_way_can_be_read_by_the_image(story, job, monkeypatch):
    """Not the job's variables, not its processes, not the home of its account."""
    for name, value in limited_root().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SECRET_OF_THE_JOB", "s3cret-of-the-job")
    apptainer = Apptainer(str(program()), log=lambda line: None)
    said = apptainer.execute(job.target, ["sh", "-c", "cat /proc/[0-9]*/environ; env"])
    assert "APPTAINER_CONTAINER" in said.text
    assert "s3cret-of-the-job" not in said.text
    seen = apptainer.execute(job.target, ["sh", "-c", "ls -A $HOME; ls /work /var/tmp"])
    assert "image-job-" not in seen.text


def test_without_orders_it_says_who_starts_it():
    done = subprocess.run(
        PROGRAM,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert done.returncode == 2
    assert done.stdout.strip().endswith("Only the portal starts this program.")


def _events(log: Path) -> tuple[list[Event], list[str]]:
    return read_events(log.read_text(errors="replace"), NONCE)


def _at(log: Path, step: str) -> bool:
    return any(event.step == step for event in _events(log)[0])


def _until(true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + patience(240)
    while not true():
        assert process.poll() is None, "the job ended before"
        assert time.monotonic() < end
        time.sleep(0.05)


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
