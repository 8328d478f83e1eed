"""spython's faults, each made to happen, and what portal.images.apptainer.apptainer makes of the
same.

The program here is a small script in Apptainer's place, since these are faults of spython, not of
Apptainer; the real one is in test_images_building.py and test_images_job.py.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path

import pytest
from machine_clock import awake
from spython.main import get_client
from spython.utils import get_singularity_version

from portal.images.apptainer.apptainer import Apptainer, ApptainerFailed, CommandResult, reason
from portal.images.outcome import CouldNotRun, WorkFailed
from portal.images.processes import children, descendants, kill_descendants

VERSION = 'if [ "$1" = --version ]; then echo "apptainer version 1.4.5"; exit 0; fi\n'


@pytest.fixture
def program(tmp_path):
    """Writes the script that stands for Apptainer; ``name`` is what it is called."""

    def write(body: str, name: str = "apptainer") -> Path:
        folder = tmp_path / f"bin-{name}"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{VERSION}{body}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def spython(program, monkeypatch):
    """spython's own client, with the script on PATH under the name that it wants."""

    def client(body: str):
        path = program(body, "singularity")
        monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
        return get_client(quiet=True)

    return client


@pytest.fixture
def ours(program):
    def make(body: str) -> tuple[Apptainer, list[str]]:
        lines: list[str] = []
        return Apptainer(str(program(body)), log=lines.append), lines

    return make


def test_a_program_with_another_name_is_found(program, monkeypatch):
    path = program("exit 1")
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    assert "1.4.5" not in str(get_singularity_version())  # the fault: only "singularity" is run
    assert Apptainer(str(path)).version() == "1.4.5"
    assert os.environ["PATH"] == f"{path.parent}:/usr/bin:/bin"


def test_the_game_of_that_name_is_not_taken(tmp_path):
    game = tmp_path / "singularity"
    game.write_text("#!/bin/sh\necho 'singularity 1.00'\n")
    game.chmod(0o755)
    for path in (game, tmp_path / "missing"):
        with pytest.raises(CouldNotRun, match=r"is not Apptainer.*c\.Images\.apptainer"):
            Apptainer(str(path)).version()


FAILS = "echo 'INFO:    Starting' >&2; echo 'FATAL:   manifest unknown' >&2; exit 255"


def test_a_failed_pull_is_an_error(spython, ours, tmp_path):
    target = tmp_path / "x.sif"
    client = spython(FAILS)
    assert client.pull("docker://a/b:c", name=str(target), quiet=True) == str(target)  # the fault
    assert not target.exists()
    apptainer, lines = ours(FAILS)
    with pytest.raises(ApptainerFailed, match="Cannot pull the image: manifest unknown") as caught:
        apptainer.build(tmp_path / "root", "docker://a/b:c", what="pull the image", sandbox=True)
    assert "Starting" in caught.value.full_output
    assert "INFO:    Starting" in lines


def test_a_build_without_result_is_an_error(ours, tmp_path):
    apptainer, _ = ours("exit 0")
    with pytest.raises(ApptainerFailed, match="created no file"):
        apptainer.build(tmp_path / "x.sif", "x.def", what="build")


def test_a_build_neither_asks_sudo_nor_hides_its_failure(spython, ours, tmp_path):
    sudo = tmp_path / "bin-singularity/sudo"
    client = spython(FAILS)
    sudo.write_text(f"#!/bin/sh\necho asked >>{tmp_path}/sudo\nexit 1\n")
    sudo.chmod(0o755)
    assert client.build("x.def", str(tmp_path / "x.sif"), quiet=True) is None  # the fault
    assert (tmp_path / "sudo").read_text() == "asked\n"
    apptainer, _ = ours(FAILS)
    with pytest.raises(ApptainerFailed):
        apptainer.build(tmp_path / "x.sif", "x.def", what="build")
    assert (tmp_path / "sudo").read_text() == "asked\n"


def test_a_failed_build_leaves_no_half_file(ours, tmp_path):
    target = tmp_path / "x.sif"
    apptainer, _ = ours(f"echo half >{target}; {FAILS}")
    with pytest.raises(ApptainerFailed):
        apptainer.build(target, "x.def", what="build")
    assert not target.exists()


BOTH = "echo out; echo err >&2; exit ${CODE:-0}"


def test_execute_always_answers_alike(spython, ours, monkeypatch):
    client = spython(BOTH)
    kinds = {type(client.execute("x", ["true"]))}
    monkeypatch.setenv("CODE", "3")
    kinds.add(type(client.execute("x", ["true"])))
    kinds.add(type(spython("echo out").execute("x", ["true"])))
    assert kinds == {str, list, dict}  # the fault
    for body, code, text in (
        ("echo out", 0, "out\n"),
        (BOTH, 3, "out\nerr\n"),
        ("exit 3", 3, ""),
    ):
        assert ours(body)[0].execute("x", ["true"]) == CommandResult(code, text)


def test_a_missing_bind_does_not_end_the_process(spython, ours, tmp_path):
    missing = str(tmp_path / "missing")
    with pytest.raises(SystemExit):  # the fault
        spython("exit 0").execute("x", ["true"], bind=[f"{missing}:/mnt"])
    with pytest.raises(WorkFailed, match="does not exist"):
        ours("exit 0")[0].execute("x", ["true"], binds={missing: "/mnt"})
    apptainer, _ = ours('echo "$@"')
    assert (
        f"--bind {tmp_path}:/mnt x true"
        in apptainer.execute("x", ["true"], binds={str(tmp_path): "/mnt"}).text
    )


def test_words_on_stderr_are_no_fault(spython, ours):
    with pytest.raises(AttributeError):  # the fault
        spython("echo out; echo err >&2").run("x", quiet=True)
    assert ours("echo out; echo err >&2")[0].execute("x", ["true"]).returncode == 0


def test_both_channels_are_streamed(spython, ours, tmp_path):
    body = f"touch {tmp_path}/x.sif; echo out; echo err >&2"
    _, lines = spython(body).build(
        "x", str(tmp_path / "x.sif"), sudo=False, stream=True, quiet=True
    )
    assert list(lines) == ["out\n"]  # the fault
    apptainer, said = ours(body)
    apptainer.build(tmp_path / "x.sif", "x.def", what="build")
    assert said == ["out", "err"]


def test_much_on_one_channel_does_not_block(spython, ours, tmp_path):
    body = f"touch {tmp_path}/x.sif; head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; echo end"
    _, lines = spython(body).build(
        "x", str(tmp_path / "x.sif"), sudo=False, stream=True, quiet=True
    )
    before = children()
    reader = threading.Thread(target=_read, args=[lines], daemon=True)
    reader.start()
    apptainer, said = ours(body)
    apptainer.build(tmp_path / "x.sif", "x.def", what="build")
    assert said[-1] == "end" and len(said) == 300_001
    assert reader.is_alive()  # the fault: it waits for ever for what stands in the other pipe
    kill_descendants(but=before)
    reader.join(10)


def test_what_is_no_text_is_an_error(ours):
    apptainer, _ = ours("printf '\\377\\376'")
    with pytest.raises(WorkFailed, match="not text"):
        apptainer.execute("x", ["cat"])
    with pytest.raises(ApptainerFailed, match="not text"):
        apptainer.build(Path("/nonexistent/x"), "y", what="build")


def test_a_command_without_end_is_ended(ours):
    apptainer, _ = ours("sleep 600 & sleep 600")
    started = awake()
    with pytest.raises(WorkFailed, match=r"'sh' in the container did not end within 0\.3 s"):
        apptainer.execute("x", ["sh"], limit=0.3)
    assert awake() - started < 20
    left = [p for p in descendants(os.getpid()) if "sleep\x00600" in _command(p)]
    assert not left


def test_empty_words_are_refused(ours):
    with pytest.raises(ValueError, match="empty"):
        ours("exit 0")[0].execute("x", ["echo", ""])


def test_the_environment_of_the_job_does_not_reach_apptainer(ours, monkeypatch):
    for name in (
        "APPTAINERENV_LD_PRELOAD",
        "SINGULARITY_BIND",
        "PORTAL_IMAGE_JOB",
        "XDG_DATA_HOME",
    ):
        monkeypatch.setenv(name, "/evil")
    assert "/evil" not in ours("env")[0].execute("x", ["true"]).text
    assert os.environ["SINGULARITY_BIND"] == "/evil"


def test_the_reason_is_the_last_error():
    said = "INFO: a\n\x1b[31mFATAL:   While performing build: no space left on device\x1b[0m\n"
    assert reason(said) == "While performing build: no space left on device"
    assert reason("") == "no reason given."


def _read(lines) -> None:
    with contextlib.suppress(subprocess.CalledProcessError):
        list(lines)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
