"""Debian's Prometheus for tests."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import yaml
from machine import patience

from portal.demo.daemons.ports import free_port


class RealPrometheus:
    """Prometheus on a free port of loopback, with its data in ``place``. ``config``: the content of
    its configuration file."""

    def __init__(self, place: Path, config: dict[str, Any]) -> None:
        self.place = place
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        (place / "prometheus.yml").write_text(yaml.safe_dump(config))

    def start(self) -> None:
        """Start it; return when it answers."""
        with (self.place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.place}/prometheus.yml",
                    f"--storage.tsdb.path={self.place}/data",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--log.level=warn",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + patience(60)
        while not self._is_ready():
            assert self.process.poll() is None, (self.place / "log").read_text()
            assert time.monotonic() < end, "Prometheus does not answer"
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/-/ready", trust_env=False).is_success
        return False

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
            self.process = None
