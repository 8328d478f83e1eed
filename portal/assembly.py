"""Assembly of the web service: its parts below the handlers, made once by their constructors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from traitlets.config import Configurable

import portal.work  # noqa: F401  adds the features
from portal.audit_log import AuditLog
from portal.cache import SharedAnswer
from portal.catalog.builds.scheduler import BuildScheduler
from portal.catalog.offers.software import Software
from portal.catalog.offers.tile import Tiles
from portal.catalog.versions.curating import Curator
from portal.catalog.versions.user_environments import UserEnvironments
from portal.directory import Directory
from portal.directory.ldap import LdapDirectory
from portal.estimates import StartEstimates
from portal.features import loaded
from portal.launch.extending import Extending
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.models.session.session import SessionRecord
from portal.notices import Notices
from portal.sessions.idle_gpus import IdleContext, IdleGpus
from portal.sessions.moves import Moves
from portal.sessions.situations import SituationContext, Situations
from portal.setting import SiteSettings
from portal.spaces.membership_cache import MembershipCache
from portal.web.audit_rate_limit import AuditRateLimit

if TYPE_CHECKING:
    from portal.catalog import EnvironmentCatalog
    from portal.dashboard import Dashboard
    from portal.hubapi import HubApi
    from portal.images.registry.registry import Registries
    from portal.slurm import Cluster
    from portal.slurm.control.control import ClusterControl
    from portal.store import Store
    from portal.telemetry import Telemetry

_Parts = TypeVar("_Parts")


class Services:
    """Parts of the service. ``prefix`` is "/services/portal/" with both slashes; ``subdomains``:
    each person's servers have a host of their own; ``hub_host``: the Hub's, as
    "https://gpu.example.org", if the Hub tells it; ``default_resources``: of a session for which
    neither the person nor the environment sets any; ``gpu_titles``: the site's names of types of
    GPUs; ``settings``: of features;
    ``parent`` has the configuration of the parts that are made here."""

    def __init__(
        self,
        *,
        prefix: str,
        log: logging.Logger,
        catalog: EnvironmentCatalog,
        cluster: Cluster,
        control: ClusterControl,
        telemetry: Telemetry,
        dashboard: Dashboard,
        store: Store,
        hub: HubApi,
        extending: Extending | None = None,
        settings: SiteSettings | None = None,
        estimates: StartEstimates | None = None,
        default_resources: Resources | None = None,
        gpu_titles: Mapping[str, str] = MappingProxyType({}),
        notices: Notices | None = None,
        allowance: AuditRateLimit | None = None,
        subdomains: bool = False,
        hub_host: str = "",
        directory: Directory | None = None,
        parent: Configurable | None = None,
    ) -> None:
        self.prefix, self.hub_host, self.log = prefix, hub_host, log
        self.base = prefix.removesuffix("services/portal/")  # JupyterHub's own
        self.catalog, self.cluster, self.control = catalog, cluster, control
        self.telemetry, self.dashboard = telemetry, dashboard
        self.store, self.hub = store, hub
        self.settings, self.extending = settings or SiteSettings(), extending or Extending()
        self.estimates = estimates or StartEstimates()
        self.default_resources = default_resources or Resources()
        self.gpu_titles = gpu_titles
        self.notices, self.directory = notices or Notices(), directory or LdapDirectory()
        self.subdomains = subdomains
        self.audit_log = AuditLog(store, log, allowance or AuditRateLimit())
        self.audit, self.note = self.audit_log.audit, self.audit_log.note
        note = self.note
        # -- the catalog
        self.build_scheduler = BuildScheduler(cluster, store, catalog, parent=parent)
        self.user_environments = UserEnvironments(
            catalog, store, self.build_scheduler, parent=parent
        )
        self.tiles, self.software = Tiles(catalog, store), Software(store)
        self.curator = Curator(catalog, store, note, parent=parent)
        self.memberships = MembershipCache(store.spaces.get, store.spaces.of_person)
        # -- sessions
        self.moves = Moves(hub, log)
        times = SharedAnswer[Mapping[str, float]](
            self._idle_times, ttl=30.0, patience=1.0, first={}
        )
        idle = IdleContext(
            view=lambda: dashboard.view,
            interval=lambda: dashboard.refresh_interval,
            telemetry=telemetry,
            store=store,
            hub=hub,
            idle_times=times.get,
            note=note,
            moving=self.moves.moving,
        )
        self.idle = IdleGpus(idle, parent=parent)
        situation = SituationContext(
            address=hub_host + prefix,
            store=store,
            cluster=cluster,
            control=control,
            telemetry=telemetry,
            extending=self.extending,
            idle=self.idle,
            moves=self.moves,
            view=lambda: dashboard.view,
            load_catalog=lambda: catalog.load(),
            environment_of=lambda name: catalog.environments.get(name),
            space=self.memberships.space,
            known_space=self.memberships.known_space,
            told=self._told,
        )
        self.situations = Situations(situation)
        self.of_features = {type(made): made for made in self._parts_of_features()}

    def _parts_of_features(self) -> Iterator[Any]:
        for parts in loaded("parts"):
            yield parts(self)

    def parts_for(self, parts: type[_Parts]) -> _Parts:
        """Return the objects of the feature with this class of ``parts``."""
        made: _Parts = self.of_features[parts]
        return made

    def groups_of(self, person: Person) -> tuple[str, ...]:
        """Return the person's groups of the Hub: the login's, and those that features know of."""
        groups = [*person.groups]
        for made in self.of_features.values():
            if known := getattr(made, "groups_of", None):
                groups += known(person)
        return tuple(groups)

    @property
    def registries(self) -> Registries:
        """Client of the image registries: the same object that builds use."""
        return self.build_scheduler.registries

    async def _idle_times(self) -> Mapping[str, float]:
        """Return the environments' own idle times in seconds, by name."""
        await self.catalog.load()
        return {
            name: float(environment.idle_time)
            for name, environment in self.catalog.environments.items()
            if environment.idle_time is not None
        }

    async def _told(self, record: SessionRecord) -> dict[str, Any]:
        """Return what features tell a session, by the field of its situation."""
        told: dict[str, Any] = {}
        for made in self.of_features.values():
            if status_of := getattr(made, "status_of", None):
                told |= await status_of(record)
        return told
