"""A notebook's kernel in a session of the demo, for the parts that measure in cells."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from tests.support.demo.hub_client import Person
from tests.support.demo.notebook_kernel import NotebookKernel

from .cluster import Cluster, NotMeasured

WHO = "ada"
_LONG = 300.0  # seconds


@contextlib.contextmanager
def kernel_with(cluster: Cluster, *packages: str) -> Iterator[NotebookKernel]:
    """Yield a kernel of a session in a virtual environment, in which pip has installed packages.
    Raises NotMeasured."""
    person = Person(str(cluster.state["url"]), WHO)
    if not person.logged_in:
        raise NotMeasured(f"{WHO} could not log in")
    answer = person.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
    if answer.status_code not in (201, 202):
        raise NotMeasured(f"the launch was refused: {answer.text}")
    try:
        person.wait_ready()
        first = NotebookKernel.start(person)
        run_cell(first, f"%pip install -q {' '.join(packages)}")
        first.shut_down()  # another one finds the packages
        kernel = NotebookKernel.start(person)
        yield kernel
        kernel.leave()
    finally:
        person.stop()


def run_cell(kernel: NotebookKernel, code: str, seconds: float = _LONG) -> str:
    """Run a cell; return what it prints. Raises NotMeasured if it fails."""
    ran = kernel.run(code, seconds)
    if ran.status != "ok":
        raise NotMeasured(f"a cell failed: {ran.error}")
    return ran.printed


def number_in(text: str, word: str) -> float:
    """Return the number after a word at the beginning of a line. Raises NotMeasured."""
    found = re.search(rf"^{word} ([0-9.]+)$", text, re.MULTILINE)
    if found is None:
        raise NotMeasured(f"no {word} in: {text}")
    return float(found[1])


def job_count(cluster: Cluster) -> int:
    """Return how many jobs the user has, the session's included."""
    return len(cluster.run("squeue", "-h", "-u", WHO, "-o", "%i").split())
