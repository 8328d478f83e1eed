"""Variables of a run's programs, and the module that they and all kernels find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from portal_session.kernels import command_line, environment
from portal_session.kernels.environment import LIBRARY
from portal_session.runs import program
from portal_session.runs.environment import arguments, of_program

JOB = {
    "PATH": "/usr/bin",
    "PYTHONPATH": f"/opt/site:{LIBRARY}",
    "JUPYTERHUB_API_TOKEN": "secret",
    "SLURM_JOB_ID": "130",
    "SLURM_NTASKS": "1",
    "CUDA_VISIBLE_DEVICES": "0",
}


def test_a_program_has_no_secret_and_its_own_values() -> None:
    values = {"lr": 0.1, "note": "it's"}
    found = of_program(JOB, name="rates", number=7, metrics=Path("/m"), values=values)
    assert "secret" not in found.values() and not any(name.startswith("SLURM_") for name in found)
    assert found["PORTAL_JOB_ID"] == "130" and found["CUDA_VISIBLE_DEVICES"] == "0"
    assert (found["PORTAL_RUN_NAME"], found["PORTAL_RUN_POINT"]) == ("rates", "7")
    assert found["PORTAL_METRICS"] == "/m" and json.loads(found["PORTAL_PARAMETERS"]) == values
    assert found["PYTHONPATH"] == f"/opt/site:{LIBRARY}"


def test_arguments_of_a_script() -> None:
    values = {"a": "it's $x\n", "b": True, "c": None, "d": 1e-05, "e": ""}
    json = ["--a=it's $x\n", "--b=true", "--c=null", "--d=1e-05", "--e="]
    assert arguments(values, {}) == json
    assert arguments(values, {"b": "True", "d": "1.0e-5"})[1:4] == [
        "--b=True",
        "--c=null",
        "--d=1.0e-5",
    ]


def test_kernels_and_terminals_of_a_session_find_the_metrics() -> None:
    """`portal_metrics` is imported as in a run, so that a notebook works in both."""
    names = ("checkpoint", "cluster", "frozen", "main", "metrics", "mpi", "states", "train")
    modules = [f"portal_{name}" for name in names]
    assert sorted(path.stem for path in LIBRARY.glob("*.py")) == modules
    kernel = {"PYTHONPATH": "/opt/site"}
    for _ in range(2):
        environment.add_startup(kernel, "python3")
    assert kernel["PYTHONPATH"] == f"/opt/site:{LIBRARY}"
    terminal = command_line._clean(lambda: {"HOME": "/home/ada"})()
    assert terminal["PYTHONPATH"] == str(LIBRARY)


def test_the_program_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an image, the server's Python is not the one on PATH."""
    server = tmp_path / "added/bin"
    server.mkdir(parents=True)
    monkeypatch.setattr("sys.executable", str(server / "python3"))
    environ = {"PATH": "/usr/bin"}
    program.add_to_path(environ, tmp_path)
    assert environ == {"PATH": "/usr/bin"}, "this Python has none"
    for name in program.NAMES:
        (server / name).write_text("#!/bin/sh\n")
        (server / name).chmod(0o755)
    for _ in range(2):
        program.add_to_path(environ, tmp_path)
    assert environ["PATH"] == f"/usr/bin:{tmp_path}/bin"
    assert (tmp_path / "bin/portal-run").readlink() == server / "portal-run"
    assert (tmp_path / "bin/portal-why").readlink() == server / "portal-why"


def test_kernels_that_a_runs_program_starts_get_the_settings_of_jupyter() -> None:
    variables = of_program({}, name="r", number=0, metrics=Path("/m"))
    (folder,) = variables["JUPYTER_CONFIG_PATH"].split(":")
    assert (Path(folder) / "jupyter_config.py").is_file()
