"""Options of ``%%gpu``, and the choice of a kernel that fits them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from portal_session.job_kernels.magic.request import GpuError, choose, parse
from portal_session.job_kernels.specs import note_refusal, offered, write

OFFER = {
    "items": [
        {
            "environment": name,
            "title": name,
            "kernels": [
                {"name": "ir", "title": "R", "language": "R"},
                {"name": "python2", "title": "Python 2", "language": "python"},
                {"name": "python3", "title": "Python 3", "language": "python"},
            ],
            "gpu_types": types,
        }
        for name, types in (("torch", ["t4", "v100"]), ("untyped", []))
    ]
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """That of a session in the environment torch."""
    write(tmp_path, offered(OFFER))
    return {
        "PORTAL_KERNEL_BROKER": str(tmp_path / "broker"),
        "PORTAL_KERNEL_SPECS": str(tmp_path),
        "PORTAL_ENVIRONMENT": "torch",
        "PORTAL_KERNEL_NAME": "python3",
    }


def test_the_defaults() -> None:
    assert parse("") == ("", 1, 0, (), (), 60.0, 256 * 2**20)


def test_all_options() -> None:
    line = "v100 --gpus 2 --time 30 --in a,b --out c, --idle 5 --limit 3  # a comment"
    assert parse(line) == ("v100", 2, 30, ("a", "b"), ("c",), 5.0, 3 * 2**20)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--gpus 0", "must be a whole number from 1 to 1024"),
        ("--gpus x", "must be a whole number from 1 to 1024"),
        ("--time -5", "Argument --time: must be a whole number from 1 to 59940"),
        ("--time", "Argument --time: expected one argument"),
        ("--in a.b", "'a.b' is not a variable name"),
        ("--limit 5000", "must be a whole number from 1 to 900"),
        ("--gpu 1", "Unrecognized arguments: --gpu"),
        ("v100 t4", "Unrecognized arguments: t4"),
        ("'", "The line cannot be read: No closing quotation"),
    ],
)
def test_wrong_options(line: str, sentence: str) -> None:
    with pytest.raises(GpuError) as error:
        parse(line)
    assert sentence in str(error.value) and "Usage: %%gpu [TYPE]" in str(error.value)


def _chosen(line: str, environ: dict[str, str]) -> tuple[dict[str, Any], list[str], str]:
    kernel = choose(parse(line), environ, patience=0)
    return kernel.request, kernel.argv, kernel.title


def test_the_first_type_and_the_notebooks_own_kernel(environ: dict[str, str]) -> None:
    request, argv, title = _chosen("", environ)
    expected = {"environment": "torch", "kernel": "python3", "gpus": 1, "gpu_type": "t4"}
    assert (request, title) == (expected, "1 \N{MULTIPLICATION SIGN} T4")
    assert argv[:2] == [sys.executable, "-I"] and "{connection_file}" in argv
    assert json.loads(argv[argv.index("--request") + 1]) == expected
    assert argv[argv.index("--spec") + 1] == "" and "--owner" in argv
    assert _chosen("", {**environ, "PORTAL_KERNEL_NAME": "python2"})[0]["kernel"] == "python2"


def test_a_kernel_of_the_users_own_gets_the_first_of_the_environment(
    environ: dict[str, str],
) -> None:
    assert _chosen("", {**environ, "PORTAL_KERNEL_NAME": "mine"})[0]["kernel"] == "python2"


def test_other_resources(environ: dict[str, str]) -> None:
    request, _, title = _chosen("V100 --gpus 2 --time 90", environ)
    assert (request["gpu_type"], request["gpus"], request["time"]) == ("v100", 2, "1:30:00")
    assert title == "2 \N{MULTIPLICATION SIGN} V100"


def test_without_types(environ: dict[str, str]) -> None:
    environ["PORTAL_ENVIRONMENT"] = "untyped"
    request, _, title = _chosen("", environ)
    assert "gpu_type" not in request and title == "1 GPU"
    with pytest.raises(GpuError, match="GPUs of type 't4' are not offered"):
        _chosen("t4", environ)


@pytest.mark.parametrize(
    ("changes", "line", "sentence"),
    [
        ({"PORTAL_KERNEL_BROKER": ""}, "", "GPUs for single cells are not offered in this session"),
        ({"PORTAL_RUN_POINT": "0"}, "", "Remove '%%gpu' from the cell, and start the run with"),
        ({"PORTAL_KERNEL": "{}"}, "", "This kernel already runs in its own Slurm job. Run"),
        ({"PORTAL_ENVIRONMENT": "other"}, "", "The environment 'other' has no Python kernel"),
        ({"PORTAL_KERNEL_SPECS": "/nowhere"}, "", "The portal offers no kernels with GPUs"),
        ({}, "h100", "GPUs of type 'h100' are not offered. Available: t4, v100."),
    ],
)
def test_refusals(
    environ: dict[str, str], changes: dict[str, str], line: str, sentence: str
) -> None:
    with pytest.raises(GpuError, match=sentence.replace(".", r"\.")):
        _chosen(line, {**environ, **changes})


def test_the_portal_s_own_reason(environ: dict[str, str], tmp_path: Path) -> None:
    """At once, not after the time that a new session may take."""
    (folder := tmp_path / "empty").mkdir()
    environ["PORTAL_KERNEL_SPECS"] = str(folder)
    note_refusal(folder, "The course 'X' does not allow kernels.")
    with pytest.raises(GpuError, match="The course 'X' does not allow kernels"):
        choose(parse(""), environ, patience=600)
    note_refusal(folder, "")
    with pytest.raises(GpuError, match="The portal offers no kernels with GPUs"):
        choose(parse(""), environ, patience=0)


def test_a_relay_that_is_not_here(environ: dict[str, str]) -> None:
    for path in Path(environ["PORTAL_KERNEL_SPECS"]).glob("kernels/*/kernel.json"):
        content = json.loads(path.read_text())
        content["argv"][0] = "/nowhere/python3"
        path.write_text(json.dumps(content))
    with pytest.raises(GpuError, match="whose server runs beside a container"):
        _chosen("", environ)


def test_damaged_kernelspecs_are_left_out(environ: dict[str, str]) -> None:
    folder = Path(environ["PORTAL_KERNEL_SPECS"]) / "kernels"
    for number, text in enumerate(("", "[]", "{}", '{"metadata": {"portal_job_kernel": 1}}')):
        (folder / f"job-{number}").mkdir()
        (folder / f"job-{number}" / "kernel.json").write_text(text)
    assert _chosen("", environ)[0]["gpu_type"] == "t4"
