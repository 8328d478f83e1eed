"""The demo's Hub, its proxy and the gateway of endpoints, all unprivileged; the last two survive
restarts of the Hub."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
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
    """Daemons ``proxy``, ``gateway`` and ``hub``, which serve ``url`` together.

    ``url`` is the Hub's host; each person's sessions have a subdomain (NAME.localhost), which
    browsers resolve to this machine by themselves (RFC 6761, 6.3).

    ``account`` runs them. ``settings`` is the file that the Hub's configuration
    (deploy/demo/jupyterhub_config.py) reads. Raises ConfigurationError if a part is missing.
    """

    def __init__(
        self, home: Home, deploy: Path, ports: Ports, port: int, account: Account, settings: Path
    ) -> None:
        self.home = home
        self.url = f"http://localhost:{port}"
        place = home.demo / "hub"
        self.place = place
        ports.pick("hub", "proxy-api", "service", "gateway")
        self.account = account
        shared = account.uid != myself().uid
        proxy = _proxy_command(home.cache)
        _check_reach(shared, *map(Path, proxy))
        self._directory(place, 0o700)
        self._directory(place / "gateway", 0o700)
        # All jobs put their logs here; only a log's owner and the Hub can read it.
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
            "PORTAL_GATEWAY_STATE": str(place / "gateway"),
            "PORTAL_GATEWAY_URL": f"http://127.0.0.1:{ports['gateway']}",
            "CONFIGPROXY_AUTH_TOKEN": self._token("proxy-token"),
        }
        passed = ("PORTAL_CONFIG_D", "PORTAL_LOG_FORMAT")
        env |= {
            name: text
            for name, text in os.environ.items()
            if name in passed or name.startswith("OTEL_")
        }
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
            env=env
            | {
                "NODE_OPTIONS": f"--max-http-header-size={HEADERS} "
                f'--require="{deploy / "proxy" / "broken_answers.cjs"}"'
            },
            account=account,
            ready=lambda: _answers(f"http://127.0.0.1:{ports['proxy-api']}/"),
            nice=FIRST,
        )
        self.gateway = Daemon(
            "gateway",
            [sys.executable, "-m", "portal", "gateway", f"127.0.0.1:{ports['gateway']}"],
            run=home.run,
            log=home.log,
            env=env
            | {
                "STATE_DIRECTORY": str(place / "gateway"),
                "JUPYTERHUB_API_URL": f"{hub_url}/hub/api",
            },
            account=account,
            ready=lambda: _answers(f"http://127.0.0.1:{ports['gateway']}/"),
            nice=FIRST,
            # As systemd does: what comes while it is started again waits.
            listening=socket.create_server(("127.0.0.1", ports["gateway"]), backlog=1024),
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
            # The service answers 403 without a login; before it is up, the Hub answers 404.
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
        """Return the secret ``name``, created on first use and readable by the Hub's account."""
        path = self.place / name
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
            if self.account.uid != os.geteuid():
                os.chown(path, self.account.uid, self.account.gid)
        return path.read_text()

    @property
    def tests_token(self) -> str:
        """Token of the demo and of `portal environments test` for the service's API."""
        return self._token("environments-token")


def _answers(url: str) -> bool:
    """Return True if ``url`` answers with a status below 500."""
    return 0 < _says(url) < HTTPStatus.INTERNAL_SERVER_ERROR


def _says(url: str) -> int:
    """Return the HTTP status of ``url``; 0 if it does not answer."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - http, made here
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _proxy_command(cache: Path) -> list[str]:
    private = cache / "node" / "node_modules" / ".bin" / "configurable-http-proxy"
    proxy = str(private) if private.exists() else shutil.which("configurable-http-proxy")
    if not proxy:
        raise ConfigurationError(
            f"configurable-http-proxy is not in {private.parent} or on PATH. "
            "`make run` installs it."
        )
    node = shutil.which("node", path=_PATH) or shutil.which("node")
    if not node:
        raise ConfigurationError("node (Node.js) is missing. `make run` installs it.")
    return [node, proxy]


def _check_reach(shared: bool, *programs: Path) -> None:
    """Raise ConfigurationError if other accounts cannot reach this Python, package or ``programs``.

    The Hub's account cannot use a Python that a version manager put into root's home, or an
    environment in a private directory. No check unless ``shared``.
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
