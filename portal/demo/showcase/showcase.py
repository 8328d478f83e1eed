"""Showcase of a demo: the past that it begins with, and the environments that it makes later."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from portal.errors import NotFound, PortalError
from portal.features import loaded

from ..daemons.hub import DemoHub
from ..environments.making import Progress
from ..home import Home
from ..people import People
from ..running import Running
from ..service_api import ServiceApi
from .catalog import FrameworkThread
from .models import ModelThread

_MARK = "examples"  # file with the time (Unix seconds) before which everything was made up
_REMOVED = "examples-removed"


class Showcase:
    """Showcase of the demo in ``home``, whose folder ``deploy`` has its files.

    ``simulated_gpus``: with a made up past, where no earlier start wrote or removed one, and with a
    framework that holds such GPUs.
    """

    def __init__(self, home: Home, deploy: Path, say: Progress, *, simulated_gpus: bool) -> None:
        self._home, self._deploy, self._say = home, deploy, say
        self._files = deploy / "demo/showcase"
        self._simulated_gpus = simulated_gpus
        self._mark = home.demo / _MARK
        new = simulated_gpus and not (home.demo / "hub/portal.sqlite").exists()
        self._wanted = new and not (home.demo / _REMOVED).exists()
        self._threads: list[FrameworkThread | ModelThread] = []
        self._over = threading.Event()
        if self._wanted:
            self._mark.write_text(f"{time.time():.0f}")

    def lay(self) -> dict[str, Any]:
        """Lay the notebook that sessions begin with, and return values for the Hub's configuration:
        ``welcome_notebook``, its path; ``examples_before``, the time before which all records are
        made up (Unix seconds; None: there are none)."""
        notebook = self._home.data / "README.ipynb"
        notebook.unlink(missing_ok=True)  # its owner may not write to it either
        shutil.copyfile(self._files / "README.ipynb", notebook)
        notebook.chmod(0o444)
        return {
            "welcome_notebook": str(notebook),
            "examples_before": float(self._mark.read_text()) if self._mark.exists() else None,
        }

    def write_past(self, hub: DemoHub) -> None:
        """Write the past, after the parts have been made. A failure is told in a sentence; the mark
        stays, so that what was written can be removed."""
        if not self._wanted:
            return
        command = _command("add", hub.place, float(self._mark.read_text()))
        try:
            done = hub.hub.once(command)
        except subprocess.TimeoutExpired as error:
            self._say(f"examples: not written within {error.timeout:.0f} s")
            return
        if done.returncode:
            self._say(f"examples: {done.stdout}{done.stderr}".strip())

    def begin(self, apptainer: Path, service: ServiceApi, url: str, people: People) -> None:
        """Make the missing environments and the model in the background; at a first start, also
        begin what goes on, at the Hub's address ``url``."""
        if self._wanted:
            begin = partial(self._begin_parts, url, people)
            threading.Thread(target=begin, name="examples", daemon=True).start()
        frameworks = FrameworkThread(
            self._files,
            self._home.cache,
            apptainer,
            service,
            self._home.demo / "frameworks.json",
            self._say,
            simulated_gpus=self._simulated_gpus,
        )
        environments, models = self._home.demo / "environments", self._deploy / "demo/models"
        served = ModelThread(self._home, models, environments, url, people.password, self._say)
        self._threads = [served, frameworks]
        for thread in self._threads:
            thread.start()

    def _begin_parts(self, url: str, people: People) -> None:
        """Begin what parts of features have. A failure is told in a sentence."""
        for part in loaded("demo"):
            try:
                part.begin(url, self._deploy, people, self._over)
            except PortalError as error:
                if not self._over.is_set():
                    self._say(f"examples: {error}")

    def end(self) -> None:
        """Begin nothing new."""
        self._over.set()
        for thread in self._threads:
            thread.end()


def remove_past(running: Running) -> bool:
    """Delete the made up records of a running demo; return False if there are none.

    Raises NotFound if the demo does not run, PortalError if its database cannot be written.
    """
    mark = running.home.demo / _MARK
    state = running.state
    if state is None:
        raise NotFound(f"No demo is running in {running.home.root}. Start it: make run")
    if not mark.exists():
        return False
    checkout = Path(__file__).resolve().parents[3]
    running.run(
        _command("remove", Path(state["hub_directory"]), float(mark.read_text())),
        user="portal" if state["form"] == "people" else None,
        env={"PYTHONPATH": str(checkout)} if (checkout / "pyproject.toml").exists() else None,
    )
    mark.unlink()
    (running.home.demo / _REMOVED).touch()
    return True


def _command(action: str, hub: Path, at: float) -> list[str]:
    """Return the command that adds or removes the past, for the account of the Hub in ``hub``."""
    database = f"sqlite:///{hub / 'portal.sqlite'}"
    return [sys.executable, "-m", "portal.demo.showcase", action, database, str(at)]
