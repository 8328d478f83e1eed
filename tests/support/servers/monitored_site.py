"""A portal as Prometheus sees it: the exporters of the service and the Hub, on a real Slurm, a real
slapd, a real gateway, and a database; and what can go wrong with each."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from directory_site import relay, running, settings_for
from gateway_site import GatewaySite
from prometheus_client import PROCESS_COLLECTOR, CollectorRegistry, generate_latest
from small import SmallSlurm
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from traitlets.config import Config

import portal.work.endpoint.metrics  # noqa: F401  with the other parts
from portal.app.web import answered
from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.dashboard import Dashboard
from portal.demo.daemons.slapd import Slapd
from portal.directory import LDAPAuthenticator
from portal.errors import DirectoryUnavailable
from portal.handlers.cluster.metrics import Metrics
from portal.hubapi import HubApi
from portal.metrics import figures
from portal.models.audit import AuditAction, AuditEntry, Outcome
from portal.models.catalog.catalog import Verdict
from portal.models.session.session import SessionRecord, SessionState
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.control.control import ClusterControl
from portal.store import Store
from portal.telemetry import Telemetry
from portal.work.endpoint.models import Endpoint
from portal.work.endpoint.parts import STATE
from portal.work.endpoint.tables import EndpointTable
from spawners.metrics import LAUNCHES, PHASES, HubCollector, count_end, count_ready

# The exporter shares its answers for less time than a test would wait.
_TTL = 0.4

DAY = 86400.0


class MonitoredSite:
    """Service and Hub with two exporters. ``folder``: short, for Unix sockets."""

    def __init__(self, folder: Path, slurm: SmallSlurm, slapd: Slapd) -> None:
        self.folder, self.slurm, self.slapd = folder, slurm, slapd
        self.gateway = GatewaySite(folder)
        self._open = contextlib.AsyncExitStack()
        self.servers: dict[str, HTTPServer] = {}
        self.ports: dict[str, int] = {}

    async def start(self, environ: Any) -> None:
        """Start everything. ``environ``: pytest's monkeypatch."""
        await self.gateway.start()
        await self.gateway.add_replica("a")
        await self.gateway.serve("a")
        self._open.push_async_callback(self.gateway.stop)
        environ.setattr(figures, "_TTL", _TTL)
        environ.setenv(STATE, str(self.gateway.directory))
        tls = self._https()
        config = Config()
        config.JupyterHub.public_url = f"https://localhost:{tls}/"
        config.JupyterHub.db_url = f"sqlite:///{self.folder}/hub.sqlite"
        config.PortalSpawner.log_directory = str(self.folder)
        self.store = Store(url=f"sqlite:///{self.folder}/portal.sqlite")
        await self.store.upgrade()
        self._open.push_async_callback(self.store.close)
        self.runner = SlurmRunner(slurm_conf=self.slurm.env["SLURM_CONF"], timeout=3.0)
        self.cluster = Cluster(runner=self.runner, rpcs_per_second=100.0, burst=100)
        self._open.callback(self.cluster.close)
        # Nothing listens there.
        self.telemetry = Telemetry(source="prometheus", prometheus_url="http://127.0.0.1:9")
        self.dashboard = Dashboard(
            cluster=self.cluster,
            telemetry=self.telemetry,
            store=self.store,
            refresh_interval=1.0,
        )
        self.catalog = self._catalog()
        self.parts = Services(
            prefix="/services/portal/",
            log=logging.getLogger("monitored"),
            catalog=self.catalog,
            cluster=self.cluster,
            control=ClusterControl(runner=self.runner),
            telemetry=self.telemetry,
            dashboard=self.dashboard,
            store=self.store,
            hub=HubApi(),
        )
        self.metrics = Metrics(self.parts, config)
        self._hub = HubCollector(self.runner, self.store)
        # The default registry has what other tests' programs have put there.
        self._of_hub = CollectorRegistry()
        for collector in (self._hub, LAUNCHES, PHASES, PROCESS_COLLECTOR):
            self._of_hub.register(collector)
        for loop in (self.dashboard.run(), self.metrics.lag.run()):
            task = asyncio.ensure_future(loop)
            self._open.push_async_callback(_end, task)
        await self.catalog.load()
        self.listen("portal", 0)
        self.listen("jupyterhub", 0)

    async def stop(self) -> None:
        """End everything."""
        for server in self.servers.values():
            server.stop()
        await self._open.aclose()

    # -- what is scraped -------------------------------------------------------------------------

    def listen(self, job: str, port: int) -> None:
        """Serve the exporter of a job of Prometheus."""
        site = self

        class Exporter(RequestHandler):
            async def get(self) -> None:
                if job == "portal":
                    body, media = await site.metrics.exposition(self.request.headers["Accept"])
                    self.set_header("Content-Type", media)
                    self.finish(body)
                else:
                    self.finish(generate_latest(site._of_hub))

        class Broken(RequestHandler):
            def get(self) -> None:
                self.send_error(500)

        web = Application(
            [("/metrics", Exporter), ("/broken", Broken)],
            log_function=answered,
            metrics=self.metrics,
            log=self.parts.log,
        )
        self.servers[job] = server = HTTPServer(web)
        sockets = bind_sockets(port, "127.0.0.1")
        server.add_sockets(sockets)
        self.ports[job] = sockets[0].getsockname()[1]

    def scrapes(self) -> list[dict[str, Any]]:
        """Return Prometheus' scrape configuration, with the names of docs/how-to/monitor.md."""
        return [
            {
                "job_name": job,
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            }
            for job, port in self.ports.items()
        ]

    # -- what happens ----------------------------------------------------------------------------

    async def good_moment(self) -> None:
        """Let everything happen once as it should."""
        now = time.time()
        record = session("ready", submitted_at=now - 60, started_at=now - 50, ready_at=now - 40)
        count_ready(record)
        await self.store.sessions.save(record)
        await self.ask_ldap()
        headers = self.gateway.headers()
        async with aiohttp.ClientSession() as client:
            await client.get(self.gateway.url("/health"), headers=headers)
            await client.get(self.gateway.url("/health"))  # refused

    async def ask_ldap(self, **settings: Any) -> None:
        """Ask the directory; ``settings``: other than its own."""
        with contextlib.suppress(DirectoryUnavailable):
            await LDAPAuthenticator(**{**settings_for(self.slapd), **settings}).known(["ada"])

    async def back_up(self, outcome: Outcome, at: float) -> None:
        await self.store.audit.add_entry(
            AuditEntry(
                at=at,
                actor="portal",
                action=AuditAction.BACK_UP,
                target="/var/backups",
                outcome=outcome,
            )
        )

    def fail_launch(self, id: str) -> None:
        """Count a launch as the Hub does when its session has ended too early."""
        count_end(session(id, state=SessionState.ENDED, ending_code="start_failed"))

    async def slow_ldap(self) -> None:
        """Ask a server that answers each message late, so often that it counts."""
        with relay("127.0.0.1", self.slapd.ldaps_port, 0.6) as port:
            late = {"servers": [f"ldaps://127.0.0.1:{port}"]}
            await asyncio.gather(*(self.ask_ldap(**late) for _ in range(12)))

    async def fail_environment(self) -> None:
        """Save a failed test of the only environment."""
        (one,) = self.catalog.environments.values()
        verdict = Verdict(
            fingerprint=one.fingerprint, gpu_type="", passed=False, message="", at=time.time()
        )
        await self.store.tests.save_verdict(verdict)
        self.catalog.offering.forget()
        await self.catalog.load()

    async def fail_endpoint(self) -> None:
        failed = Endpoint(name="embed", user="ada", created_at=time.time(), problem="It is broken.")
        await self.store.table(EndpointTable).add_endpoint(failed)

    def _catalog(self) -> EnvironmentCatalog:
        files = self.folder / "environments"
        files.mkdir()
        text = f"name: plain\ntitle: Plain\nkind: venv\npath: {self.folder}\n"
        (files / "plain.yaml").write_text(text)
        return EnvironmentCatalog(
            store=self.store, directory=str(files), kept_directory=str(self.folder / "kept")
        )

    def _https(self) -> int:
        """Serve HTTPS with a certificate that ends in five days; return the port."""
        file = self.folder / "site.pem"
        file.write_bytes(certificate(datetime.timedelta(days=5)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        server = HTTPServer(Application(), ssl_options=context)
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        self._open.callback(server.stop)
        return int(sockets[0].getsockname()[1])


def session(id: str, **more: Any) -> SessionRecord:
    """Return the record of a session with a job, which waits unless told otherwise."""
    known = {"user": "ada", "job_id": "7", "submitted_at": time.time(), **more}
    return SessionRecord(id=id, **known)


def certificate(valid: datetime.timedelta) -> bytes:
    """Return a key and a certificate of localhost, signed by itself, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + valid)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ) + made.public_bytes(serialization.Encoding.PEM)


async def _end(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def monitored(folder: Path, environ: Any) -> AsyncIterator[MonitoredSite]:
    """A site that runs while the block does."""
    slurm = SmallSlurm(folder / "slurm", accounting=False)
    with running(folder / "slapd") as slapd:
        site = MonitoredSite(folder, slurm, slapd)
        try:
            await asyncio.to_thread(slurm.start)
            await site.start(environ)
            yield site
        finally:
            await site.stop()
            slurm.stop()
