"""Kernels that programs in a session's terminals start: nbclient (papermill's), nbconvert."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from portal_session.kernels.environment import add_library
from session_server import make_python

# Says where the cell's own kernel listens.
_CELL = """
import os, pathlib
from ipykernel.kernelapp import IPKernelApp
app = IPKernelApp.instance()
folder = pathlib.Path(app.ip).parent
print(app.transport, oct(folder.stat().st_mode & 0o777), folder)
"""
_NBCLIENT = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook).execute()
nbformat.write(notebook, sys.argv[1])
"""


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_CELL)])
    path = tmp_path / "a.ipynb"
    path.write_text(nbformat.writes(notebook))
    return path


def environ_of(home: Path, **more: str) -> dict[str, str]:
    """The variables of a terminal."""
    return {"HOME": str(home), "PATH": os.environ["PATH"], **more}


def said(notebook: Path) -> list[str]:
    """Words of the notebook's output: transport, mode and path of its kernel's folder."""
    cells = json.loads(notebook.read_text())["cells"]
    return "".join(cells[0]["outputs"][0]["text"]).split()


def test_a_library_starts_kernels_on_unix_sockets(tmp_path: Path, notebook: Path) -> None:
    python = make_python(tmp_path / "venv")
    environ = environ_of(tmp_path, PORTAL_JOB_ID="42")
    argv = [python, "-c", _NBCLIENT, notebook]
    subprocess.run(argv, env=environ, cwd=tmp_path, check=True, timeout=120)
    transport, mode, folder = said(notebook)
    assert (transport, mode) == ("ipc", "0o700")
    assert not Path(folder).exists(), "it is removed when the program ends"


def test_jupyters_programs_do_in_a_python_without_the_package(
    tmp_path: Path, notebook: Path
) -> None:
    environ = environ_of(tmp_path)  # without the job's id, this Python's .pth does nothing
    add_library(environ)
    argv = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace"]
    subprocess.run([*argv, notebook], env=environ, cwd=tmp_path, check=True, timeout=120)
    transport, mode, folder = said(notebook)
    assert (transport, mode) == ("ipc", "0o700")
    assert not Path(folder).exists()
