"""Objects that all spawners of one Hub process share: cluster watcher, catalog, database.

JupyterHub makes a spawner per server; with a watcher per spawner, each would query Slurm.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jupyterhub.app import JupyterHub
from prometheus_client import REGISTRY
from traitlets.config import Config
from traitlets.log import get_logger

import portal.work  # noqa: F401  adds the kinds of work
from portal.catalog import EnvironmentCatalog
from portal.catalog.offers.tile import Tiles
from portal.estimates import HUB, StartEstimates
from portal.gpus.settings import Gpus
from portal.images.settings import Images
from portal.models.announcement import Announcement
from portal.service_accounts import service_accounts
from portal.setting import SiteSettings
from portal.slurm import Cluster
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

from .form.announcements import AnnouncementCache
from .form.favourites import Favourites
from .form.form import LaunchForm
from .host.blocking import Blocking
from .host.preparation import Preparation
from .host.storage import Storage
from .launch.budgets import Budgets
from .launch.refused import RefusedLaunches
from .lifecycle.commits import Commits
from .lifecycle.reconciler import Reconciler
from .lifecycle.session_recorder import Recorder
from .metrics import HubCollector
from .web.entries import Entries


@dataclass
class HubContext:
    """Singletons of the Hub process. ``HubContext.instance(config)`` returns them."""

    cluster: Cluster
    catalog: EnvironmentCatalog
    form: LaunchForm
    storage: Storage
    store: Store
    estimates: StartEstimates
    images: Images = field(default_factory=Images)
    gpus: Gpus = field(default_factory=Gpus)
    settings: SiteSettings = field(default_factory=SiteSettings)
    commits: Commits = field(default_factory=Commits)
    blocking: Blocking = field(default_factory=Blocking)
    refused: RefusedLaunches = field(default_factory=RefusedLaunches)
    entries: Entries = field(default_factory=Entries)
    services: frozenset[str] = frozenset()  # service accounts
    began: float = field(default_factory=time.monotonic)

    preparation: Preparation = field(init=False)
    recorder: Recorder = field(init=False)
    announcements: AnnouncementCache = field(init=False)
    favourites: Favourites = field(init=False)
    tiles: Tiles = field(init=False)
    memberships: MembershipCache = field(init=False)
    budgets: Budgets = field(init=False)

    def __post_init__(self) -> None:
        self.preparation = Preparation(self.blocking)
        log = get_logger()
        self.recorder = Recorder(self.store, Reconciler(self.cluster, log), log)
        self.announcements = AnnouncementCache(self.store)
        self.favourites = Favourites(self.store)
        self.tiles = Tiles(self.catalog, self.store)
        self.memberships = MembershipCache(
            self.store.spaces.get, self.store.spaces.of_person, self.store.spaces.named
        )
        self.budgets = Budgets(self.store)

    _only: ClassVar[HubContext | None] = None

    @classmethod
    def instance(cls, config: Config) -> HubContext:
        """Return the process's only instance, made with ``config`` at the first call."""
        if cls._only is None:
            cluster, store = Cluster(config=config), Store(config=config)
            cls._only = cls(
                cluster=cluster,
                catalog=EnvironmentCatalog(config=config, store=store),
                form=LaunchForm(config=config),
                storage=Storage(config=config),
                store=store,
                estimates=StartEstimates(
                    config=config, runner=cluster.runner, store=store, share=HUB
                ),
                images=Images(config=config),
                gpus=Gpus(config=config),
                settings=SiteSettings(config),
                services=service_accounts(config),
            )
            REGISTRY.register(HubCollector(cluster.runner, store))
            with contextlib.suppress(RuntimeError):  # no event loop: not in a Hub that serves
                asyncio.get_running_loop()
                cls._only.recorder.start()
        return cls._only


def announcements(user: Any = None) -> list[Announcement]:
    """Return the announcements on all pages of the Hub, the login page too: their variable
    ``portal_announcements`` (JupyterHub calls it with whoever is logged in)."""
    return HubContext.instance(JupyterHub.instance().config).announcements.now()
