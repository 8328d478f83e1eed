"""The real service on a synthetic cluster: ``python -m tests.benchmarks.synthetic_service``.

The service is the one that the Hub starts, in its own process, with its real runner, parser,
database and web server. Two parts are synthetic, as stated with the figures: Slurm (synthetic.py),
and the Hub, of which a service uses a single URL, ``/hub/api/user``. ``admin-token`` is the token
of grace, who may read everything; ``user-token`` is user000's, ``USER-token`` any other person's.
A browser sends it as a header with every request. ``USER/SERVER-token`` is a session's token.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.demo.daemons.ports import free_port
from portal.demo.daemons.process import end_child
from portal.models import scope
from portal.models.session.session import SessionRecord, SessionState
from portal.slurm import parse
from portal.store import Store
from tests.support.servers.quiet_http import QuietHandler, serving

from .synthetic import ROOT, size_parser, synthetic

PREFIX = "/services/portal/"
ADMIN_TOKEN = "admin-token"
USER_TOKEN = "user-token"
_ACCESS = "access:services!service=portal"
_PEOPLE_WITH_SESSIONS = 40  # of the synthetic cluster's 200

_CONFIG = """
c.SlurmRunner.bin_dir = {bin!r}
c.Dashboard.refresh_interval = {interval}
c.Telemetry.source = {telemetry!r}
c.Store.url = "sqlite:///{place}/portal.sqlite"
c.EnvironmentCatalog.directory = {environments!r}
c.EnvironmentCatalog.kept_directory = "{place}/kept"
c.EnvironmentCatalog.offer_untested = True
c.Workshop.test_by_itself = False
c.PortalService.log_level = "WARN"
"""


@dataclass(frozen=True)
class Service:
    """Running service. ``url``: ends with the prefix's slash; ``pid``: its process; ``squeue``:
    file with squeue's current output; ``environments``: the catalog's directory; ``database``: the
    URL of its database."""

    url: str
    pid: int
    squeue: Path
    environments: Path
    database: str

    def get(self, path: str = "", token: str = ADMIN_TOKEN, seconds: float = 30) -> bytes:
        """Return the body of a response. Raises OSError unless it is a success."""
        request = urllib.request.Request(
            f"{self.url}{path}", headers={"Authorization": f"token {token}"}
        )
        with urllib.request.urlopen(request, timeout=seconds) as response:
            return bytes(response.read())

    @property
    def asked(self) -> int:
        """Number of Slurm's commands run so far."""
        return self.squeue.with_name("asked").stat().st_size

    def memory_mib(self) -> float:
        """Return the resident memory of the process (proc(5), status)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process so far, without its commands' (proc(5), stat)."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        fields = stat[stat.rindex(")") + 2 :].split()
        return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def synthetic_service(
    nodes: int,
    jobs: int,
    *,
    churn: float = 0.01,
    interval: float = 5.0,
    step: float | None = None,
    telemetry: str = "none",
    port: int = 0,
    settings: str = "",
) -> Iterator[Service]:
    """Run the service, ready and with its first view, while the block runs. It refreshes every
    ``interval`` seconds; the cluster changes every ``step`` (None: as often). ``settings``:
    additional lines of its configuration."""
    with (
        synthetic(nodes, jobs, churn, step or interval) as slurm,
        tempfile.TemporaryDirectory(prefix="synthetic-service-", dir="/var/tmp") as place,
        _hub() as hub,
    ):
        _sessions(slurm.place, Path(place))
        config = Path(place) / "config.py"
        environments = Path(place) / "environments"
        environments.mkdir()
        config.write_text(
            _CONFIG.format(
                bin=str(slurm.bin),
                interval=interval,
                telemetry=telemetry,
                place=place,
                environments=str(environments),
            )
            + settings
        )
        address = f"http://127.0.0.1:{port or free_port()}"
        process = subprocess.Popen(
            [sys.executable, "-m", "portal", "service", f"--config={config}"],
            cwd=ROOT,
            env=os.environ | _variables(address, hub),
            stdin=subprocess.DEVNULL,
        )
        try:
            service = Service(
                f"{address}{PREFIX}",
                process.pid,
                slurm.place / "squeue.txt",
                environments,
                f"sqlite:///{place}/portal.sqlite",
            )
            _wait(service, process)
            yield service
        finally:
            end_child(process, 15)


def _variables(address: str, hub: str) -> dict[str, str]:
    """Return the variables of a managed service (jupyterhub.services.service.Service.start)."""
    return {
        "PYTHONPATH": str(ROOT),
        "JUPYTERHUB_SERVICE_NAME": "portal",
        "JUPYTERHUB_SERVICE_URL": address,
        "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        "JUPYTERHUB_API_URL": f"{hub}/hub/api",
        "JUPYTERHUB_API_TOKEN": secrets.token_hex(16),
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_HOST": "",
        "JUPYTERHUB_CLIENT_ID": "service-portal",
        "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{PREFIX}oauth_callback",
        "JUPYTERHUB_OAUTH_SCOPES": json.dumps([_ACCESS]),
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps([_ACCESS]),
        "JUPYTERHUB_OAUTH_CLIENT_ALLOWED_SCOPES": "[]",
    }


def _sessions(slurm: Path, place: Path) -> None:
    """Write portal sessions for the jobs of some people, as the Hub would have."""
    import asyncio

    jobs = parse.jobs((slurm / "squeue.txt").read_text(), "\x1fSEPARATOR")
    with_sessions = {f"user{number:03d}" for number in range(_PEOPLE_WITH_SESSIONS)}
    records = [
        SessionRecord(
            id=f"synthetic{job.id}",
            user=job.user,
            server=job.id,
            account=job.user,
            environment=f"environment-{int(job.id) % 7}",
            environment_title=f"Environment {int(job.id) % 7}",
            job_id=job.id,
            state=SessionState.PENDING if job.state.pending else SessionState.RUNNING,
            submitted_at=job.submit_time or 0,
            started_at=None if job.state.pending else job.start_time,
            nodes=job.nodes,
        )
        for job in jobs.values()
        if job.user in with_sessions and len(job.nodes) < 2
    ]
    records.sort(key=lambda item: item.state is SessionState.PENDING)

    async def save() -> None:
        store = Store(url=f"sqlite:///{place}/portal.sqlite")
        await store.upgrade()
        for record in records[:1000]:
            await store.sessions.save(record)
        await store.close()

    asyncio.run(save())


def session_tokens(service: Service, number: int) -> list[str]:
    """Return the tokens of ``number`` living sessions."""
    tokens: list[str] = []
    after = ""
    while len(tokens) < number and after is not None:
        path = f"api/v1/sessions?all=true&ended=false&limit=200{after and f'&after={after}'}"
        page = json.loads(service.get(path))
        tokens += [f"{session['user']}/{session['server']}-token" for session in page["items"]]
        after = page["next"]
    return tokens[:number]


def _wait(service: Service, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with {process.returncode}")
        with contextlib.suppress(OSError):
            service.get("api/v1/cluster")
            return
        time.sleep(0.2)
    raise RuntimeError("the service has no view of the cluster after 120 s")


class _Hub(QuietHandler):
    """Handler of a service's only request to the Hub: the user of a token."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("token ")
        name = "grace" if token == ADMIN_TOKEN else token.removesuffix("-token")
        if self.path.partition("?")[0] != "/hub/api/user" or not token.endswith("-token"):
            self._answer(404, {"status": 404, "message": "Not Found"})
            return
        name = "user000" if token == USER_TOKEN else name
        scopes = [_ACCESS, *(scope.MEANINGS if name == "grace" else ())]
        name, slash, server = name.partition("/")
        if slash:
            scopes = [f"{scope.SESSION_OWN}!server={name}/{server}"]
        admin = name == "grace"
        model = {"kind": "user", "name": name, "admin": admin, "groups": [], "scopes": scopes}
        self._answer(200, model)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_whole(status, json.dumps(body).encode())


@contextlib.contextmanager
def _hub() -> Iterator[str]:
    with serving(_Hub) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def main() -> None:
    """Run until Ctrl-C."""
    parser = size_parser("The service on a synthetic cluster.")
    parser.add_argument("--interval", type=float, default=5.0)
    parser.add_argument("--telemetry", choices=("none", "simulated"), default="none")
    parser.add_argument("--port", type=int, default=0)
    options = vars(parser.parse_args())
    nodes, jobs = options.pop("nodes"), options.pop("jobs")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes are ended
    with synthetic_service(nodes, jobs, **options) as service:
        tokens = {"grace": ADMIN_TOKEN, "user000": USER_TOKEN}
        print(json.dumps({"url": service.url, "pid": service.pid, "tokens": tokens}), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)


if __name__ == "__main__":
    main()
