"""Every shipped notebook is executed, with its framework, on CPUs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from frameworks import environment_for, executing, kernelspec, python_kernel, python_of
from portal_session.measurements.measurements import MIME
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from portal.models.catalog.catalog import MeasurementReport

STARTERS = Path(__file__).resolve().parents[3] / "deploy/environments/starters"
R = "r"
# In which of tests/support/containers/frameworks.py a notebook runs here; a name of its own where
# it cannot.
RUNS_IN = {
    "caffe2": "caffe2",
    "chexnet-densenet": "torch",
    "cuda": "torch",
    "distributed-ddp": "torch",
    "horovod": "horovod",
    "mxnet": "mxnet",
    "python": "torch",
    "pytorch": "torch",
    "pytorch-inference": "torch",
    "r": R,
    "rapids": "torch",
    "resnet50-benchmark": "torch",
    "scikit-learn": "scikit-learn",
    "tensorflow-keras": "tensorflow",
}
NOT_HERE = {
    "caffe2": "Caffe2 cannot be had for the Python of this machine",
}
if not Path("/usr/lib/R/site-library/IRkernel").exists():
    NOT_HERE[R] = "no r-cran-irkernel on this machine"
# What must be said on a machine without GPUs.
SAYS = {
    "chexnet-densenet": ("No GPU here", "AUROC"),
    "cuda": ("NO GPU IS USED", "g++ and OpenMP", "pi is about 3.14"),
    "distributed-ddp": ("All 2 processes have the same gradients and weights",),
    "horovod": ("All 2 processes have the same gradients and weights",),
    "mxnet": ("no GPU here", "classified correctly"),
    "python": ("0 GPUs", "best: rate"),
    "pytorch": ("No GPU here", "models/shapes.pt is ready"),
    "pytorch-inference": ("pytorch.ipynb trains one", "images per second", "Least sure"),
    "r": ("0 GPUs", "The data was generated with"),
    "rapids": ("NO GPU IS USED", "price = 4.00 + 1.80 * kilometres + 0.35 * minutes"),
    "resnet50-benchmark": ("No GPU here", "fp32", "bf16"),
    "scikit-learn": ("by cross-validation", "of the test images are read correctly", "epochs"),
    "tensorflow-keras": ("no GPU here", "mean error"),
}


class Ran(NamedTuple):
    """An executed notebook, and the folder that it ran in."""

    notebook: Any
    folder: Path

    @property
    def given(self) -> str:
        """All that it printed and showed as text."""
        outputs = [one for cell in self.notebook.cells for one in cell.get("outputs", ())]
        return "\n".join(
            one.get("text") or one.get("data", {}).get("text/plain", "") for one in outputs
        )

    @property
    def draws(self) -> bool:
        """Return True if it shows a picture."""
        outputs = [one for cell in self.notebook.cells for one in cell.get("outputs", ())]
        return any({"image/png", "image/svg+xml"} & set(one.get("data", {})) for one in outputs)


def execute(name: str, folder: Path) -> Ran:
    """Run a notebook in an empty folder, with its neighbours beside it."""
    for path in STARTERS.glob("*.ipynb"):
        shutil.copy(path, folder)
    data = folder.parent / f"{folder.name}-jupyter"
    if RUNS_IN[name] == R:
        kernelspec(["R", "--slave", "-e", "IRkernel::main()", "--args"], data, "ir")
    else:
        python_kernel(python_of(RUNS_IN[name]), data)
    done = subprocess.run(
        executing(folder / f"{name}.ipynb"),
        env=environment_for(data),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{name}: {done.stderr[-4000:]}"
    return Ran(nbformat.read(folder / "executed.ipynb", as_version=4), folder)


@pytest.fixture(scope="module")
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Ran]]:
    """Executes what the selected tests are about, two at a time; gives one when it is done."""
    wanted = dict.fromkeys(
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.function is test_a_notebook_runs  # each is executed once
    )
    folders = {name: tmp_path_factory.mktemp(name) for name in wanted}
    with ThreadPoolExecutor(2) as pool:
        futures: dict[str, Future[Ran]] = {
            name: pool.submit(execute, name, folders[name])
            for name in wanted
            if RUNS_IN[name] not in NOT_HERE
        }
        yield lambda name: futures[name].result()


def curves(folder: Path) -> dict[str, set[str]]:
    """The names in the TensorBoard logs of a folder, by the run that they are in."""
    found = {}
    for run in {path.parent for path in (folder / "logs").rglob("events.out.tfevents.*")}:
        log = EventAccumulator(str(run))
        log.Reload()
        tags = log.Tags()
        found[str(run.relative_to(folder))] = {*tags["scalars"], *tags["tensors"]}
    return found


def test_every_notebook_is_listed() -> None:
    assert {path.stem for path in STARTERS.glob("*.ipynb")} == set(RUNS_IN)
    assert set(RUNS_IN) - {"caffe2"} == set(SAYS)


@pytest.mark.parametrize("name", sorted(RUNS_IN))
def test_a_notebook_runs(ran: Callable[[str], Ran], name: str) -> None:
    if RUNS_IN[name] in NOT_HERE:
        pytest.skip(NOT_HERE[RUNS_IN[name]])
    one = ran(name)
    for words in SAYS[name]:
        assert words in one.given, one.given
    assert one.draws or name == "pytorch-inference"
    written = curves(one.folder)
    assert written and all(written.values()), written
    if name == "resnet50-benchmark":
        of_portal(one)


def of_portal(one: Ran) -> None:
    """What the benchmark shows for the portal is what the portal takes."""
    outputs = [output for cell in one.notebook.cells for output in cell.get("outputs", ())]
    shown = [output.data[MIME] for output in outputs if MIME in output.get("data", {})]
    reports = [MeasurementReport.model_validate(dict(found)) for found in shown]
    assert [(each.benchmark, each.precision, each.gpus) for each in reports] == [
        ("resnet50", "fp32", 0),
        ("resnet50", "bf16", 0),
    ]
