"""``portal service``: the web service that the Hub starts, stops and protects with its login."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuth
from pydantic import ValidationError
from tornado.httpserver import HTTPServer
from traitlets import Integer, Unicode, default
from traitlets.config import Application, Config, catch_config_error

from portal import __version__
from portal.assembly import Services
from portal.catalog import CatalogRules, EnvironmentCatalog
from portal.catalog.builds.scheduler import BuildScheduler
from portal.catalog.versions.curating import Curator
from portal.catalog.versions.user_environments import UserEnvironments
from portal.dashboard import Dashboard
from portal.directory import directory_of
from portal.errors import ConfigurationError
from portal.estimates import SERVICE, StartEstimates
from portal.features import FEATURES, Works, add_works
from portal.fixed_settings import drop_fixed
from portal.gpus.titles import gpu_titles
from portal.handlers.pages.rendering import Pages, site_variables
from portal.hubapi import HubApi
from portal.images.registry.credentials import Secrets
from portal.images.registry.registry import Registries
from portal.images.settings import Images
from portal.launch.extending import Extending
from portal.launch.request import DEFAULT_RESOURCES
from portal.models.session.resources import Resources
from portal.notices import Notices
from portal.sessions.idle_gpus import IdleGpus
from portal.setting import SiteSettings, setting
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.control.control import ClusterControl
from portal.store import Store
from portal.telemetry import Telemetry
from portal.web.tossed import protect_service

from .background_tasks import BackgroundTasks
from .log import OneLineFormatter
from .web import web_application

_PR_SET_PDEATHSIG = 1  # prctl(2)


class PortalService(Application):
    """Web service. The Hub passes its address and its token in ``JUPYTERHUB_*`` variables."""

    name = "portal-service"
    version = __version__
    description = "The portal's web service, started by JupyterHub."
    classes = [
        EnvironmentCatalog,
        CatalogRules,
        Curator,
        BuildScheduler,
        UserEnvironments,
        Images,
        Registries,
        Secrets,
        Cluster,
        SlurmRunner,
        ClusterControl,
        Dashboard,
        Telemetry,
        Store,
        HubApi,
        Extending,
        IdleGpus,
        Notices,
        HubOAuth,
        StartEstimates,
        Works,
        *(settings for feature in FEATURES for settings in feature.settings),
    ]
    aliases = {
        "f": "PortalService.config_file",
        "config": "PortalService.config_file",
        "log-level": "Application.log_level",
    }
    raise_config_file_errors = True
    _log_formatter_cls = OneLineFormatter

    config_file = setting(
        Unicode(""),
        "Configuration file, the same as the Hub's. Sections of other classes are ignored.",
        "portal service --config=/etc/data-scientist-portal/jupyterhub_config.py",
    )

    token_age = setting(
        Integer(30, min=1),  # HubAuth reads 0 as "for ever"
        """Seconds for which the Hub's answer about a token is cached: a revoked token or group
        membership keeps working for this long.""",
        "c.PortalService.token_age = 10",
    )

    max_body = 1024 * 1024  # bytes of a request's body

    # Seconds to wait for the port if the service of a killed Hub still uses it: that one ends its
    # streams and queries within some seconds.
    bind_patience = 30.0

    @default("log_level")
    def _default_log_level(self) -> int:
        return 20  # INFO

    @default("log_format")
    def _default_log_format(self) -> str:
        return "[%(levelname)1.1s %(asctime)s.%(msecs)03d portal] %(message)s"

    @catch_config_error
    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line and the configuration file; an error in them ends the command with
        a sentence."""
        super().initialize(argv)
        with self.exit_on_error():
            if self.config_file:
                self._read_config_file()
                self.update_config(self.cli_config)  # the command line wins
            add_works(self.config)
            self._check_variables()

    def update_config(self, config: Config) -> None:
        """Merge ``config``, without settings that are fixed now: the Hub, which reads the same
        file, warns of them."""
        drop_fixed(config)
        super().update_config(config)

    def _read_config_file(self) -> None:
        if not Path(self.config_file).is_file():
            raise ConfigurationError(f"{self.config_file} does not exist.")
        try:
            self.load_config_file(self.config_file)
        except Exception as error:  # the file is the site's own Python: anything can come out
            raise ConfigurationError(
                f"{self.config_file}: {type(error).__name__}: {error}. The Hub passes to this "
                "service only the environment variables that "
                "deploy/jupyterhub_config.d/20-service.py lists (PORTAL_… and a few)."
            ) from None

    @contextlib.contextmanager
    def exit_on_error(self) -> Iterator[None]:
        """Turn a ConfigurationError into one line in the log and exit status 1."""
        try:
            yield
        except ConfigurationError as error:
            self.log.critical("%s", error)
            self.exit(1)

    def _check_variables(self) -> None:
        missing = [
            name
            for name in ("JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_CLIENT_ID")
            if not os.environ.get(name)
        ]
        if missing:
            raise ConfigurationError(
                f"{', '.join(missing)} is not set. The Hub starts this service "
                "(c.JupyterHub.services); do not start it by hand."
            )

    def start(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the Hub is gone."""
        with self.exit_on_error(), contextlib.suppress(KeyboardInterrupt):
            asyncio.run(self.serve())

    async def serve(self) -> None:
        """Serve as ``start`` does, in a running event loop."""
        die_with_parent()
        # tornado and HubAuth log the same way; their INFO has session ids in it.
        tornado_log = logging.getLogger("tornado")
        tornado_log.parent = self.log
        tornado_log.setLevel(logging.WARNING)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        protect_service()
        HubOAuth.instance(parent=self, cache_max_age=self.token_age)
        address = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
        parts, pages = self.make_parts(), self.make_pages()
        pages.load()
        server = HTTPServer(
            web_application(parts, pages, stop, self.max_body),
            xheaders=True,
            max_body_size=self.max_body,
        )
        await self._listen(server, address.port or 80, address.hostname or "127.0.0.1")
        self.log.info("Portal %s serves %s at %s", __version__, self.prefix, address.geturl())
        life = BackgroundTasks(parts)
        life.start()
        await stop.wait()
        server.stop()
        await life.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(server.close_all_connections(), 2)

    @property
    def prefix(self) -> str:
        """Path that the proxy sends here, with its slashes: ``/services/portal/``."""
        return os.environ.get("JUPYTERHUB_SERVICE_PREFIX") or "/services/portal/"

    def make_parts(self) -> Services:
        """Build the parts of the service, each with its settings."""
        runner = SlurmRunner(parent=self)
        cluster = Cluster(parent=self, runner=runner)
        telemetry, store = Telemetry(parent=self), Store(parent=self)
        hub = HubApi(parent=self)
        directory = directory_of(self, hub)
        return Services(
            prefix=self.prefix,
            log=self.log,
            catalog=EnvironmentCatalog(parent=self, store=store),
            cluster=cluster,
            control=ClusterControl(parent=self, runner=runner),
            telemetry=telemetry,
            dashboard=Dashboard(parent=self, cluster=cluster, telemetry=telemetry, store=store),
            store=store,
            hub=hub,
            extending=Extending(parent=self),
            settings=SiteSettings(self.config),
            estimates=StartEstimates(parent=self, runner=runner, store=store, share=SERVICE),
            default_resources=self._default_resources(),
            gpu_titles=gpu_titles(self.config.LaunchForm.get("gpu_types")),
            notices=Notices(parent=self, store=store, directory=directory),
            directory=directory,
            subdomains=bool(self.config.JupyterHub.get("subdomain_host", "")),
            hub_host=os.environ.get("JUPYTERHUB_HOST", ""),
            parent=self,
        )

    def _default_resources(self) -> Resources:
        """Return the site's, from the section of the Hub's spawner in the same file."""
        section = self.config.PortalSpawner
        try:
            return Resources.model_validate(section.get("default_resources", DEFAULT_RESOURCES))
        except ValidationError as error:
            raise ConfigurationError(f"c.PortalSpawner.default_resources: {error}") from None

    def make_pages(self) -> Pages:
        """Build the pages, in the Hub's look and with the site's own variables."""
        hub = HubOAuth.instance()
        return Pages(
            prefix=self.prefix,
            hub_prefix=hub.hub_prefix,
            hub_host=hub.hub_host,
            variables=site_variables(self.config.JupyterHub),
        )

    async def _listen(self, server: HTTPServer, port: int, host: str) -> None:
        """Listen on the port; wait a while for one that is being released."""
        deadline = asyncio.get_running_loop().time() + self.bind_patience
        while True:
            try:
                server.listen(port, host)
                return
            except OSError as error:
                late = asyncio.get_running_loop().time() > deadline
                if error.errno != errno.EADDRINUSE or late:
                    raise ConfigurationError(
                        f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port "
                        "in the 'url' of the service in c.JupyterHub.services."
                    ) from None
            await asyncio.sleep(0.2)


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the Hub is gone, so that a Hub killed with -9 leaves no
    service behind that holds the port. Linux only (prctl(2)); elsewhere nothing happens.

    Raises ConfigurationError when the Hub (PORTAL_HUB_PID) went while this process began.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.environ.get("PORTAL_HUB_PID", str(os.getppid())) != str(os.getppid()):
        raise ConfigurationError("The Hub that started this service has ended.")
