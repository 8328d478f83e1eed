"""A second Hub on the demo's Slurm, directory and homes, with its own settings."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from hub_client import wait_until

from portal.demo.daemons.ports import free_port
from portal.demo.daemons.process import end_child
from portal.where import data_path

CONFIG = """
load_subconfig({demo!r})
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.subdomain_host = ""  # as at a site without a wildcard name; the demo has hosts
c.JupyterHub.hub_bind_url = "{scheme}://127.0.0.1:{hub}"
c.JupyterHub.hub_connect_url = "{scheme}://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.should_start = True
c.ConfigurableHTTPProxy.api_url = "{scheme}://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.pid_file = {place!r} + "/proxy.pid"
c.JupyterHub.cleanup_proxy = True
c.JupyterHub.db_url = "sqlite:///" + {place!r} + "/hub.sqlite"
c.JupyterHub.cookie_secret_file = {place!r} + "/cookie-secret"
c.JupyterHub.services = []
c.JupyterHub.load_roles = []
c.Store.url = "sqlite:///" + {place!r} + "/portal.sqlite"  # a database has one Hub
c.EnvironmentCatalog.offer_untested = True  # nobody tests for it: it has no service
place = {place!r}
"""


@contextlib.contextmanager
def other_hub(
    demo: Any,
    settings: str = "",
    scheme: str = "http",
    environment: Mapping[str, str] | None = None,
    prepare: Callable[[Path], None] = lambda place: None,
) -> Iterator[tuple[str, Path]]:
    """Yield the URL of a second Hub, and a folder that its account owns.

    ``settings``: additional lines of its configuration, in which ``place`` is that folder;
    ``scheme``: protocol between Hub and proxy; ``environment``: additional variables. ``prepare``
    is called with the folder before the Hub starts.
    """
    place = Path(tempfile.mkdtemp(prefix="pt-", dir="/var/tmp"))
    place.chmod(0o755)
    own = place / "hub"
    own.mkdir()
    user = "portal" if demo.people else None
    if demo.people:
        shutil.chown(own, 6100, 6100)
    prepare(own)
    public = free_port()
    config = place / "config.py"
    values = {
        "demo": str(data_path("deploy") / "demo" / "jupyterhub_config.py"),
        "place": str(own),
        "public": public,
        "hub": free_port(),
        "api": free_port(),
        "scheme": scheme,
    }
    config.write_text(CONFIG.format(**values) + settings)
    node = demo.home.cache / "node" / "node_modules" / ".bin"
    env = {
        "PATH": f"{Path(sys.executable).parent}:{node}:{os.environ['PATH']}",
        "PYTHONPATH": str(data_path("deploy").parent),
        "PORTAL_DEMO_STATE": str(demo.home.run / "state.json"),
        **(environment or {}),
    }
    log = place / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            demo.command([sys.executable, "-m", "jupyterhub", "-f", str(config)], user, env),
            stdout=out,
            stderr=out,
            cwd="/",
            start_new_session=True,
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            return httpx.get(f"http://127.0.0.1:{public}/hub/health").status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_until("the Hub answers", answers)
        yield f"http://127.0.0.1:{public}", own
    finally:
        end_child(process, 30)
        shutil.rmtree(place)
