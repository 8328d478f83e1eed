"""The demo's Hub and its proxy, both unprivileged; the proxy outlives a restart of the Hub."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import urllib.request
from http import HTTPStatus
from pathlib import Path

from portal.errors import ConfigurationError
from portal.web.cookies import HEADERS

from ..home import Home
from ..people import Account, myself
from .ports import Ports
from .process import FIRST, MARK, Daemon

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class DemoHub:
    """``proxy`` and ``hub``: two daemons that serve ``url`` together.

    It is the Hub's own host; each person's sessions have one below it (NAME.localhost), which
    browsers take for this machine by themselves (RFC 6761, 6.3).

    ``account``: whom they run as. ``settings`` is the file that the Hub's configuration
    (deploy/demo/jupyterhub_config.py) reads. Raises ConfigurationError where a part is missing.
    """

    def __init__(
        self, home: Home, deploy: Path, ports: Ports, port: int, account: Account, settings: Path
    ) -> None:
        self.home = home
        self.url = f"http://localhost:{port}"
        place = home.demo / "hub"
        self.place = place
        ports.pick("hub", "proxy-api", "service")
        self.account = account
        shared = account.uid != myself().uid
        proxy = _proxy_command(home.cache)
        _check_reach(shared, *map(Path, proxy))
        self._directory(place, 0o700)
        # Everyone's jobs put their log here; its owner and the Hub alone can read it.
        self._directory(home.demo / "sessions", 0o711)
        self._directory(home.demo / "image-logs", 0o711)
        env = {
            "PATH": f"{Path(sys.executable).parent}:{_PATH}",
            "LANG": "C.UTF-8",
            "HOME": str(place),
            "USER": account.name,
            "LOGNAME": account.name,
            MARK: str(home.root),
            "PORTAL_DEMO_STATE": str(settings),
            "PORTAL_SERVICE_PORT": str(ports["service"]),
            "CONFIGPROXY_AUTH_TOKEN": self._token("proxy-token"),
        }
        if "PORTAL_CONFIG_D" in os.environ:
            env["PORTAL_CONFIG_D"] = os.environ["PORTAL_CONFIG_D"]
        checkout = Path(__file__).resolve().parents[3]
        if (checkout / "pyproject.toml").exists():
            env["PYTHONPATH"] = str(checkout)
        if not shared:
            env["SLURM_CONF"] = str(home.demo / "slurm" / "etc" / "slurm.conf")
            env["HOME"] = str(Path.home())
        hub_url = f"http://127.0.0.1:{ports['hub']}"
        self.proxy = Daemon(
            "proxy",
            [
                *proxy,
                "--ip=127.0.0.1",
                f"--port={port}",
                "--api-ip=127.0.0.1",
                f"--api-port={ports['proxy-api']}",
                f"--default-target={hub_url}",
                f"--error-target={hub_url}/hub/error",
                "--host-routing",
                "--log-level=warn",
            ],
            run=home.run,
            log=home.log,
            env=env | {"NODE_OPTIONS": f"--max-http-header-size={HEADERS}"},
            account=account,
            ready=lambda: _answers(f"http://127.0.0.1:{ports['proxy-api']}/"),
            nice=FIRST,
        )
        self.hub = Daemon(
            "hub",
            [
                sys.executable,
                "-m",
                "jupyterhub",
                "-f",
                deploy / "demo" / "jupyterhub_config.py",
            ],
            run=home.run,
            log=home.log,
            env=env,
            account=account,
            # The service asks for a login; while it is not there yet, the Hub says 404.
            ready=lambda: (
                _answers(f"{self.url}/hub/health")
                and _says(f"{self.url}/services/portal/api/v1/cluster") == HTTPStatus.FORBIDDEN
            ),
            patience=150,
            cwd=place,
            nice=FIRST,
        )

    def _directory(self, path: Path, mode: int) -> None:
        path.mkdir(exist_ok=True)
        if self.account.uid != os.geteuid():
            os.chown(path, self.account.uid, self.account.gid)
        path.chmod(mode)

    def _token(self, name: str) -> str:
        """A secret, which is kept in the home and which the Hub's account can read."""
        path = self.place / name
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
            if self.account.uid != os.geteuid():
                os.chown(path, self.account.uid, self.account.gid)
        return path.read_text()

    @property
    def tests_token(self) -> str:
        """With which the demo, and `portal environments test`, speak to the service."""
        return self._token("environments-token")


def _answers(url: str) -> bool:
    """Whether an HTTP server answers at ``url``, whatever it says short of a server error."""
    return 0 < _says(url) < HTTPStatus.INTERNAL_SERVER_ERROR


def _says(url: str) -> int:
    """The status that ``url`` answers with; 0 for none."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - http, made here
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _proxy_command(cache: Path) -> list[str]:
    private = cache / "node" / "node_modules" / ".bin" / "configurable-http-proxy"
    found = str(private) if private.exists() else shutil.which("configurable-http-proxy")
    if not found:
        raise ConfigurationError(
            f"configurable-http-proxy is missing in {private.parent} and on PATH. "
            "`make run` installs it."
        )
    node = shutil.which("node", path=_PATH) or shutil.which("node")
    if not node:
        raise ConfigurationError("node (Node.js) is missing. `make run` installs it.")
    return [node, found]


def _check_reach(shared: bool, *programs: Path) -> None:
    """Other accounts must be able to run this Python and ``programs``, and read this package.

    A Python that a version manager put into root's home, or an environment in a private
    directory, cannot serve the Hub's account.
    """
    if not shared:
        return
    python = Path(sys.executable)
    for needed in (python, python.resolve(), Path(__file__).resolve(), *programs):
        for part in needed.parents:
            if not part.stat().st_mode & 0o001:
                raise ConfigurationError(
                    f"The Hub's account cannot reach {needed}, because {part} is private. Install "
                    "the portal where every account can read it (`make run` does)."
                )
