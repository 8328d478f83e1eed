"""Environments with frameworks, made by the portal's own means after the demo has started: a
draft through the API, a build job, smoke tests, then published."""

from __future__ import annotations

import contextlib
import json
import string
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from portal.errors import NotFound, PortalError, Unavailable

from ..environments.environments import site_binds
from ..environments.making import Progress
from ..service_api import ServiceApi
from .frameworks import FRAMEWORKS, Framework, base_image

_COMMENT = "Created by the demo."
_UNDER_WAY = ("building", "testing")
_PATIENCE = 1800.0  # seconds for one environment's build and tests
_PAUSE = 2.0


class FrameworkThread(threading.Thread):
    """Thread that makes what is missing of FRAMEWORKS.

    ``definitions``: folder of the YAML files; ``service``: the portal's; ``record``: file with the
    names of those that were published, so that what an admin withdraws or removes does not come
    back. A failure is told in a sentence, and the next start tries again.
    """

    def __init__(
        self,
        definitions: Path,
        cache: Path,
        apptainer: Path,
        service: ServiceApi,
        record: Path,
        say: Progress,
        *,
        simulated_gpus: bool,
    ) -> None:
        super().__init__(name="frameworks", daemon=True)
        self._definitions, self._cache, self._apptainer = definitions, cache, apptainer
        self._service, self._record = service, record
        self._say: Callable[[str], None] = say
        self._max_gpus = 4 if simulated_gpus else 0  # it leaves real ones to others
        self._over = threading.Event()

    def run(self) -> None:
        """Make them. The packages of one are fetched while the one before is built."""
        done = json.loads(self._record.read_text()) if self._record.exists() else []
        self._began = time.monotonic()
        begun: list[dict[str, Any]] = []
        for framework in FRAMEWORKS:
            if framework.name not in done and not self._over.is_set():
                with self._logged(framework.name):
                    begun.append(self._begun(framework))
        for version in begun:
            with self._logged(version["name"]):
                self._published(version)
                done.append(version["name"])
                new = self._record.with_suffix(".new")
                new.write_text(json.dumps(done))
                new.replace(self._record)

    @contextlib.contextmanager
    def _logged(self, name: str) -> Iterator[None]:
        """Tell a PortalError of the block, unless the demo stops."""
        try:
            yield
        except (PortalError, OSError) as error:  # OSError: also of what is ended with the demo
            if not self._over.is_set():
                self._say(f"environment {name}: {error}")

    def end(self) -> None:
        """Say no more and begin nothing new: the demo stops, and with it what runs now."""
        self._over.set()

    def _begun(self, framework: Framework) -> dict[str, Any]:
        """Return a version that is being built, or has been. Raises PortalError."""
        name = framework.name
        version = self._newest(name)
        if version is not None and version["state"] in _UNDER_WAY:
            with contextlib.suppress(PortalError):  # its job ended with the start before
                self._waited(version)
            version = self._newest(name)
        if version is not None and version["state"] not in ("draft", "failed"):
            return version
        source = base_image(framework, self._cache, self._apptainer, self._say)
        if self._over.is_set():
            raise PortalError("The demo stops.")
        draft = {"definition": self._definition(name, source), "comment": _COMMENT}
        if version is None:
            version = self._service.post("environments", draft)
        elif version["environment"]["source"] != str(source):
            draft["base"] = version["number"]
            version = self._service.put(f"environments/{name}", draft)
        self._service.post(f"{_path(version)}/build")
        return version

    def _published(self, version: dict[str, Any]) -> None:
        """Wait for a version and publish it, unless it is. Raises PortalError."""
        if version.get("published_at") is None:
            version = self._waited(version)
            self._service.post(f"{_path(version)}/publish")
        seconds = time.monotonic() - self._began
        self._say(f"environment {version['name']}: offered after {seconds:.0f} s")

    def _newest(self, name: str) -> dict[str, Any] | None:
        """Return the newest version of an environment; None if it has none. Waits for a service
        that does not answer, as while the Hub restarts. Raises Unavailable after that, PortalError
        if it refuses."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                page = self._service.get(f"environments/{name}/versions")
            except Unavailable:
                if self._over.wait(_PAUSE) or time.monotonic() > end:
                    raise
            except NotFound:
                return None
            else:
                version: dict[str, Any] = page["items"][0]
                return version

    def _definition(self, name: str, source: Path) -> dict[str, Any]:
        text = (self._definitions / f"{name}.yaml").read_text()
        values = {
            "source": json.dumps(str(source)),
            "binds": json.dumps(site_binds()),
            "max_gpus": self._max_gpus,
        }
        definition: dict[str, Any] = yaml.safe_load(string.Template(text).substitute(values))
        return definition

    def _waited(self, version: dict[str, Any]) -> dict[str, Any]:
        """Return the version once it is built and tested. Raises PortalError with the reason if it
        failed."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and not self._over.wait(_PAUSE):
            try:
                version = self._service.get(_path(version))
            except Unavailable:
                continue  # the Hub may be restarting
            if version["state"] == "failed":
                raise PortalError(version["message"])
            if version["state"] not in _UNDER_WAY:
                return version
        raise PortalError("The build or its tests did not finish in time. See the page Curate.")


def _path(version: dict[str, Any]) -> str:
    return f"environments/{version['name']}/versions/{version['number']}"
