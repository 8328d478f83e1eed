"""The benchmark scripts as they are shipped, started as a user does: their results, and what they
say where they cannot measure."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from frameworks import python_of
from machine_image import machine_image

from portal.errors import ConfigurationError
from portal.models.session.run_logged import Logged
from portal.work.benchmarks import results

ROOT = Path(__file__).resolve().parents[3]
STARTERS = ROOT / "deploy/environments/starters"
LIBRARY = ROOT / "kernels/portal_session/runs/library"


SCRIPT = """
import sys
sys.path.insert(0, {starters!r})
from benchmark_results import publish, result
publish("storage", {script!r}, [
    result("read", 812.5, "MB/s", None, folder="home", direct=1),
    result("train", 5, "images/s", 2, "fp16", 2.454e10, precision="fp16"),
])
"""


def test_what_a_script_publishes_is_what_the_portal_takes(tmp_path: Path) -> None:
    """The digest is that of the shipped files; a changed script has another."""
    code = SCRIPT.format(starters=str(STARTERS), script=str(STARTERS / "storage.py"))
    environ = {"PORTAL_METRICS": str(tmp_path / "metrics.jsonl"), "PYTHONPATH": str(LIBRARY),
               "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True, env=environ, cwd=tmp_path)
    (file,) = (tmp_path / "logged").iterdir()
    rows = json.loads(file.read_text())
    (found,) = results.logged_results(Logged(tables={file.stem: rows}))
    assert found.digest == results.digests(STARTERS)["storage"]
    assert [each.conditions for each in found.results] == [
        "folder=home, direct=1", "precision=fp16"
    ]  # fmt: skip
    assert (found.results[0].gpus, found.results[1].operations) == (None, 2.454e10)
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["script"].startswith(f"sha256:{found.digest}")
    assert set(json.loads((tmp_path / "metrics.jsonl").read_text())) == {
        "read (folder=home, direct=1)", "train (precision=fp16)"
    }  # fmt: skip

    changed = tmp_path / "storage.py"
    changed.write_text((STARTERS / "storage.py").read_text() + "\n")
    environ["PORTAL_FROZEN_SOURCE"] = str(changed)
    subprocess.run([sys.executable, "-c", code], check=True, env=environ, cwd=tmp_path)
    digests = {name.stem.split()[-1] for name in (tmp_path / "logged").iterdir()}
    assert digests == {found.digest} | (digests - {found.digest}) and len(digests) == 2


def run_alone(folder: Path, *arguments: str, path: str = "") -> Any:
    environ = {"HOME": str(folder), "PATH": path, "TMPDIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(STARTERS / "storage.py"), "--local=", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=folder)


def test_what_is_missing_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = run_alone(tmp_path)
    assert done.returncode == 1 and "This environment has no fio. Choose" in done.stderr
    done = run_alone(tmp_path, "--repeats=0")
    assert done.returncode == 1 and "--repeats 1 or more" in done.stderr
    fio = tmp_path / "fio"
    fio.write_text("#!/bin/sh\nexit 1\n")
    fio.chmod(0o755)
    done = run_alone(tmp_path, "--home=/nonexistent", path=str(tmp_path))
    assert "home (/nonexistent) could not be measured: No such file or directory." in done.stderr
    assert "Mend that, or leave the folder out" in done.stderr
    assert done.returncode == 1 and "Traceback" not in done.stderr


def executed(script: str, folder: Path, *arguments: str, python: str = "", **more: str) -> Any:
    """Execute a script with the metrics of a run in ``folder``; return its results."""
    environ = {
        **os.environ,
        "PORTAL_METRICS": str(folder / "metrics.jsonl"),
        "PYTHONPATH": str(LIBRARY),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        **more,
    }
    command = [python or sys.executable, str(STARTERS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=folder)
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "logged").iterdir()
    logged = Logged(tables={file.stem: json.loads(file.read_text())})
    (found,) = results.logged_results(logged)
    assert found.digest == results.digests(STARTERS)[script.removesuffix(".py")]
    return found


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio (deploy/packages-test.txt)")
def test_storage_is_measured_with_the_real_fio(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    quick = ("--size=1048576", "--seconds=0.05", "--repeats=1", "--local=", "--scratch=", "--data=")
    found = executed("storage.py", tmp_path, f"--home={home}", *quick)
    units = {row.unit for row in found.results}
    assert (len(found.results), units) == (12, {"MB/s", "IO/s"})
    assert all(row.gpus is None and "folder=home" in row.conditions for row in found.results)
    assert not list(home.iterdir())


REAL = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("fio") is None, reason="needs root, to mount, and fio"
)
SMALL = ("--size=1048576", "--seconds=0.05", "--repeats=2", "--local=", "--scratch=", "--data=")


def mounted(kind: str, options: str, folder: Path, *, before: str = "", fio: str = "") -> Any:
    """Execute storage.py on a new file system at ``folder``, which only its processes see.
    ``before``: a command after it is mounted; ``fio``: one before each measurement."""
    folder.mkdir()
    if fio:
        program = folder.with_name("bin") / "fio"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\n{fio}\nexec {shutil.which("fio")} "$@"\n')
        program.chmod(0o755)
    path = f"{folder.with_name('bin')}:{os.environ['PATH']}"
    command = shlex.join([sys.executable, str(STARTERS / "storage.py"), *SMALL, f"--home={folder}"])
    script = f"mount -t {kind} -o {options} none {folder} && {before or ':'} && {command}"
    script += f"; code=$?; ls -A {folder} | grep -v filler >&2; exit $code"
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True, text=True, cwd=folder.parent, env={**os.environ, "PATH": path},
    )  # fmt: skip


@REAL
def test_a_file_system_without_o_direct_is_measured_and_named(tmp_path: Path) -> None:
    # ramfs has none, and does not say how large it is.
    done = mounted("ramfs", "mode=755", tmp_path / "home")
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads((tmp_path / "results.json").read_text())["results"]
    assert len(rows) == 12 and all("direct=0" in row["conditions"] for row in rows)
    assert all(row["value"] > 0 for row in rows) and any(row["spread"] > 0 for row in rows)


@REAL
def test_a_file_system_that_is_full_is_named(tmp_path: Path) -> None:
    filler = tmp_path / "home/filler"
    done = mounted(
        "tmpfs", "size=4m", tmp_path / "home", before=f"head -c 3500000 /dev/zero > {filler}"
    )
    assert done.returncode == 1
    assert "it is full: 692,224 bytes are free, and 1,048,576 are needed." in done.stderr


@REAL
def test_a_file_system_that_fills_up_meanwhile_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = mounted("tmpfs", "size=4m", home, fio=f"cat /dev/zero > {home}/filler 2>/dev/null")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines() == [
        f"home ({home}) could not be measured: it is full: No space left on device.",
        "Mend that, or leave the folder out, such as with --scratch= (empty).",
    ], "the words, and no folder that was left behind"
    assert not (tmp_path / "results.json").exists()


def test_results_that_cannot_be_written_are_printed(tmp_path: Path) -> None:
    code = SCRIPT.format(starters=str(STARTERS), script=str(STARTERS / "storage.py"))
    environ = {"PORTAL_METRICS": "/proc/none/metrics", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and "812.5 MB/s" in done.stdout
    assert "results.json cannot be written: No such file or directory." in done.stderr
    assert "Traceback" not in done.stderr


def test_collectives_start_their_own_ranks(tmp_path: Path) -> None:
    python = str(python_of("torch"))
    found = executed("collectives.py", tmp_path, "--ranks=2", "--largest=4096", python=python)
    names = {row.name for row in found.results}
    operations = ("all-reduce", "broadcast", "all-gather")
    assert names == {f"{name} {what}" for name in operations for what in ("latency", "bandwidth")}
    assert all(row.gpus == 0 and "ranks=2, bytes=4096" in row.conditions for row in found.results)


def test_collectives_are_one_of_the_ranks_that_are_there(tmp_path: Path) -> None:
    """By env:// alone, as srun and torchrun set it; the first of three ranks publishes."""
    python = str(python_of("torch"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environ = {
        **os.environ, "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo", "PORTAL_METRICS": str(tmp_path / "metrics.jsonl"),
        "PYTHONPATH": str(LIBRARY), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [python, str(STARTERS / "collectives.py"), "--largest=4096"]
    ranks = [
        subprocess.Popen(command, env={**environ, "RANK": str(rank)}, cwd=tmp_path)
        for rank in range(3)
    ]
    assert [process.wait() for process in ranks] == [0, 0, 0]
    rows = json.loads((tmp_path / "results.json").read_text())["results"]
    about = [row["conditions"] for row in rows if row["name"] == "broadcast latency"]
    assert [text.split(",")[0] for text in about] == ["ranks=2", "ranks=3"]


def test_throughput_runs_small_without_gpus(tmp_path: Path) -> None:
    python = str(python_of("torch"))
    few = ("--batch=1", "--steps=1")
    found = executed("throughput.py", tmp_path, *few, python=python, CUDA_VISIBLE_DEVICES="")
    names = {row.name for row in found.results}
    assert names == {
        "training from memory", "training from disk", "inference", "matrices", "memory copy"
    }  # fmt: skip
    # CPUs have no peak to be compared with.
    assert all((row.gpus, row.peak, row.operations) == (0, "", 0) for row in found.results)
    assert any("pixels=64" in row.conditions for row in found.results)


def test_time_to_accuracy_has_a_spread_over_seeds(tmp_path: Path) -> None:
    python, few = str(python_of("torch")), ("--seeds=2", "--target=0.3", "--most=20")
    found = executed("time-to-accuracy.py", tmp_path, *few, python=python)
    values = {row.name: row.value for row in found.results}
    for what in ("epochs", "seconds"):
        best, median, worst = (
            values[f"{what} to accuracy{seed}"] for seed in (", best seed", "", ", worst seed")
        )
        assert best <= median <= worst
    script = [python, str(STARTERS / "time-to-accuracy.py"), "--target=1", "--most=1"]
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(script, capture_output=True, text=True, env=environ, cwd=tmp_path)
    assert done.returncode == 1 and "Seed 0 did not reach 100% in 1 epochs" in done.stderr


@pytest.fixture
def debian(tmp_path: Path) -> dict[str, str]:
    """Variables for a container with this machine's packages, in the folder "image"."""
    try:
        return machine_image(tmp_path / "image")
    except ConfigurationError as error:
        pytest.skip(error.message)


QUICK = ("--rounds=1", "--batch=1", "--steps=1")


def checked_comparison(found: Any) -> None:
    values = {(row.name, row.conditions.split(",")[0]): row.value for row in found.results}
    for ranks in ("ranks=1", "ranks=2"):
        inside, outside = (
            values[f"training in a {place}", ranks]
            for place in ("container", "virtual environment")
        )
        ratio = values["container to virtual environment", ranks]
        assert ratio == pytest.approx(inside / outside)
    assert len(values) == len(found.results) == 8
    assert all((row.gpus, row.peak) == (0, "") for row in found.results)


@pytest.mark.containers
def test_a_container_is_compared_with_a_virtual_environment(
    tmp_path: Path, debian: dict[str, str]
) -> None:
    python, image = str(python_of("torch")), f"--image={tmp_path / 'image'}"
    checked_comparison(
        executed("chexnet-scaling.py", tmp_path, image, *QUICK, python=python, **debian)
    )
    # What Apptainer or the ranks say is above the sentence.
    script = [python, str(STARTERS / "chexnet-scaling.py"), f"--image={STARTERS}"]
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PATH": debian["PATH"]}
    done = subprocess.run(script, capture_output=True, text=True, env=environ, cwd=tmp_path)
    assert done.returncode == 1 and "The container has no PyTorch" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.containers
def test_ranks_of_a_run_compare_theirs(tmp_path: Path, debian: dict[str, str]) -> None:
    """Each rank starts its own processes, which meet where rank 0 says."""
    python = str(python_of("torch"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environ = {
        **os.environ, **debian, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo",
        "PORTAL_METRICS": str(tmp_path / "metrics.jsonl"), "PYTHONPATH": str(LIBRARY),
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    image = f"--image={tmp_path / 'image'}"
    command = [python, str(STARTERS / "chexnet-scaling.py"), image, *QUICK]
    ranks = [
        subprocess.Popen(command, env={**environ, "RANK": str(rank)}, cwd=tmp_path)
        for rank in range(2)
    ]
    assert [process.wait() for process in ranks] == [0, 0]
    (file,) = (tmp_path / "logged").iterdir()
    logged = Logged(tables={file.stem: json.loads(file.read_text())})
    (found,) = results.logged_results(logged)
    checked_comparison(found)


def test_one_rank_has_nothing_to_exchange(tmp_path: Path) -> None:
    python = str(python_of("torch"))
    script = str(STARTERS / "collectives.py")
    for more, words in (
        ({"RANK": "0", "WORLD_SIZE": "1"}, "one rank has nothing to exchange"),
        ({}, "--ranks must be 2 or more."),
    ):
        environ = {**os.environ, **more, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [python, script, "--ranks=1"]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path)
        assert done.returncode == 1 and words in done.stderr
        assert "Traceback" not in done.stderr
