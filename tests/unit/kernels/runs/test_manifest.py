"""Manifest of a point: whole or not there, and about the Python that really ran."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from portal_session.runs.execution.manifest import Manifest, program_of, slurm_facts


@pytest.mark.parametrize("name", ["python", "python3"])
def test_a_plain_python_is_the_servers(name: str) -> None:
    assert program_of([name, "-m", "ipykernel_launcher"]) == sys.executable


def test_another_program_is_itself() -> None:
    assert program_of(["/opt/conda/bin/python", "-m", "x"]) == "/opt/conda/bin/python"


def test_a_manifest_has_its_beginning_and_its_end(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, {"point": 3, "slurm": slurm_facts({"SLURM_JOB_ID": "7"})})
    assert manifest.write() == ""
    content = json.loads((tmp_path / "manifest.json").read_text())
    assert (content["state"], content["slurm"]["job_id"]) == ("running", "7")
    assert "ended_at" not in content
    manifest.note(gpus={"count": 1, "names": ["V100"]})
    assert manifest.end(state="failed", exit=1, message="it's\nover") == ""
    content = json.loads((tmp_path / "manifest.json").read_text())
    assert content["gpus"]["count"] == 1 and content["exit"] == 1 and content["ended_at"]
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    sentence = Manifest(tmp_path / "gone", {}).write()
    assert sentence == "manifest.json cannot be written: No such file or directory."
