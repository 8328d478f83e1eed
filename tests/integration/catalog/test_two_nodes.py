"""The notebooks for distributed training, on two nodes of a real Slurm: each submits its own job,
whose processes find each other and agree."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import Demo, a_home
from frameworks import environment_for, executing, python_kernel, python_of

STARTERS = Path(__file__).resolve().parents[3] / "deploy/environments/starters"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the person and the nodes can write to."""
    with a_home() as place:
        (place / "work").mkdir()
        (place / "jupyter").mkdir()
        for path in (place / "work", place / "jupyter"):
            path.chmod(0o777)
        yield place


@pytest.mark.parametrize(
    ("name", "framework"), [("distributed-ddp", "torch"), ("horovod", "horovod")]
)
def test_all_processes_agree(slurm_cluster: Demo, folder: Path, name: str, framework: str) -> None:
    python = python_of(framework)
    python_kernel(python, folder / "jupyter")
    for path in (folder / "jupyter").rglob("*"):  # whatever the umask
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.copy(STARTERS / f"{name}.ipynb", folder / "work")
    kept = ("JUPYTER_PATH", "JUPYTER_DATA_DIR", "IPYTHONDIR", "OMP_NUM_THREADS")
    given = environment_for(folder / "jupyter")
    try:
        slurm_cluster.run(
            executing(folder / "work" / f"{name}.ipynb"),
            user=slurm_cluster.user("ada"),
            env={**{key: given[key] for key in kept}, "SBATCH_PARTITION": "cpu"},
            timeout=400,
        )
    finally:
        for output in (folder / "work").glob("*.out"):
            print(output.read_text())  # of the job on two nodes; seen where the test fails
    notebook = nbformat.read(folder / "work/executed.ipynb", as_version=4)
    said = "".join(
        one.get("text", "") for cell in notebook.cells for one in cell.get("outputs", ())
    )
    assert re.search("Submitted batch job [0-9]+", said), said
    assert said.count("All 2 processes have the same gradients and weights.") == 2, said
    short = "ddp" if name == "distributed-ddp" else name
    everyone: list[dict[str, Any]] = json.loads(
        (folder / f"work/{short}-two-nodes.json").read_text()
    )
    assert [one["node"] for one in everyone] == ["cpu01", "cpu02"]
    assert [one["rank"] for one in everyone] == [0, 1]
    # Each had a gradient of its own, of its own data; what they applied was the same.
    assert len({one["own_gradient"] for one in everyone}) == 2
    assert len({one["averaged_gradient"] for one in everyone}) == 1
    assert len({one["weights"] for one in everyone}) == 1
    assert everyone[0]["averaged_gradient"] != everyone[0]["own_gradient"]
