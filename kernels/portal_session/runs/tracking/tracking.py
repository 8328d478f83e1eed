"""Tracking of a point: the ways besides ``portal_metrics`` by which its programs tell metrics."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from ...kernels.container import PASSED
from ...situation import in_thread
from ..environment import METRICS
from .event_files import EventFiles
from .mlflow_runs import MlflowRuns
from .mlflow_server import MlflowServer
from .scalars import Scalars

LOGS = "PORTAL_LOGS"  # the point's folder for TensorBoard
_FOLDER = "logs"
_OF_TRANSFORMERS = "TENSORBOARD_LOGGING_DIR"  # its Trainer reads it


class Tracking:
    """Tracking of a point whose files are in ``folder``. Its metrics go to the file ``metrics``."""

    def __init__(self, folder: Path, metrics: Path, cwd: Path) -> None:
        self._logs, self._metrics = folder / _FOLDER, metrics
        self._files = EventFiles(self._logs, cwd, time.time(), f"{METRICS}={metrics}")
        self._mlflow = MlflowServer(MlflowRuns(folder, metrics, _user()))
        self._scalars: Scalars | None = None

    def begin(self, environ: MutableMapping[str, str]) -> dict[str, str]:
        """Serve MLflow's client; return the variables that the point's programs get besides those
        in ``environ``. A container beside this process gets them too."""
        with contextlib.suppress(OSError):
            self._mlflow.start()
        variables = {LOGS: str(self._logs), _OF_TRANSFORMERS: str(self._logs)}
        variables.update(self._mlflow.variables(environ))
        environ[PASSED] = " ".join([*environ.get(PASSED, "").split(), *variables])
        return variables

    def follow(self, python: Sequence[str], variables: Mapping[str, str]) -> None:
        """Read TensorBoard's scalars from now on, with this Python (an argv, its environment); []:
        this process's own."""
        self._scalars = Scalars(self._files, self._metrics, python or [sys.executable], variables)
        self._scalars.start()

    @property
    def note(self) -> str:
        """Sentence about metrics that were not read; "" if all were."""
        return self._files.note

    async def end(self, patience: float) -> None:
        """Read what is new for the last time, for ``patience`` seconds at most."""
        if self._scalars is not None:
            await in_thread(self._scalars.finish, patience)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the node does not know the user
        return str(os.getuid())
