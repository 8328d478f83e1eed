"""Figures that take a query or a look at a disk: collected for a scrape, and shared by scrapes.

A scrape never waits long for them: what does not answer is left out, and has metrics that say so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from traitlets.config import Config

from portal import disk
from portal.assembly import Services
from portal.cache import SharedAnswer
from portal.errors import PortalError
from portal.images.settings import Images
from portal.launch.kinds import KINDS
from portal.models.audit import AuditAction, Outcome
from portal.models.session.session import SessionState

from .certificate import expiry_of

_TTL = 5.0  # seconds; several Prometheus servers cost as much as one
_PATIENCE = 0.04  # seconds that a scrape waits
_OLDEST = 120.0  # seconds; older figures are left out
_CERTIFICATE_TTL = 600.0
_LIVING = [state.value for state in SessionState if state is not SessionState.ENDED]
_LOGS = "/var/lib/data-scientist-portal/log"  # PortalSpawner.log_directory's default


class Figures:
    """Figures of ``parts``; ``config``: of the site."""

    def __init__(self, parts: Services, config: Config) -> None:
        self._parts, self._config = parts, config
        self._folders = dict(_folders(parts, config))
        self._answer = SharedAnswer[tuple[Metric, ...]](
            self._ask, ttl=_TTL, patience=_PATIENCE, first=()
        )
        self._certificate = SharedAnswer[float | None](
            lambda: asyncio.to_thread(expiry_of, config), ttl=_CERTIFICATE_TTL, first=None
        )

    async def get(self) -> tuple[Metric, ...]:
        """Return the figures, at most some seconds old; none if they are older than two minutes."""
        found = await self._answer.get()
        return found if self._answer.age < _OLDEST else ()

    async def _ask(self) -> tuple[Metric, ...]:
        parts: list[Callable[[], AsyncIterator[Metric]]] = [
            self._disks, self._works, self._backups, self._catalog, self._certificates,
            *(of.metrics for of in self._parts.of_features.values() if hasattr(of, "metrics")),
        ]  # fmt: skip
        found = await asyncio.gather(*(_collected(part) for part in parts))
        return tuple(metric for some in found for metric in some)

    async def _disks(self) -> AsyncIterator[Metric]:
        family = GaugeMetricFamily(
            "portal_disk_free_bytes", "Free bytes where the portal writes.", labels=("folder",)
        )
        for name, path in self._folders.items():
            if (left := await asyncio.to_thread(disk.free, path)) is not None:
                family.add_metric([name], left)
        yield family

    async def _works(self) -> AsyncIterator[Metric]:
        works = GaugeMetricFamily(
            "portal_works",
            "Sessions, runs, kernels and replicas that have not ended.",
            labels=("kind", "state"),
        )
        rows = await self._parts.store.sessions.works()
        number = {
            **{(kind.name, state): 0 for kind in KINDS for state in _LIVING},
            **{(row.work, row.state): row.number for row in rows},
        }
        for (kind, state), count in number.items():
            works.add_metric([kind, state], count)
        oldest = min((row.oldest for row in rows if row.state == SessionState.PENDING), default=0)
        users = await self._parts.store.sessions.people()
        yield works
        yield GaugeMetricFamily(
            "portal_queue_oldest_age_seconds",
            "Time for which the oldest waiting job of the portal waits; 0 if none waits.",
            value=max(0.0, time.time() - oldest) if oldest else 0.0,
        )
        yield GaugeMetricFamily(
            "portal_users_with_works", "Users of what has not ended.", value=users
        )

    async def _backups(self) -> AsyncIterator[Metric]:
        family = GaugeMetricFamily(
            "portal_backup_timestamp_seconds",
            "Time of the last backup with this outcome.",
            labels=("outcome",),
        )
        for outcome in (Outcome.DONE, Outcome.FAILED):
            entries, _ = await self._parts.store.audit.find(
                action=AuditAction.BACK_UP, outcome=outcome, limit=1
            )
            for entry in entries:
                family.add_metric([outcome], entry.at)
        yield family

    async def _catalog(self) -> AsyncIterator[Metric]:
        catalog = self._parts.catalog
        yield GaugeMetricFamily(
            "portal_catalog_errors", "Files of the catalog that are wrong.",
            value=len(catalog.errors),
        )  # fmt: skip
        verdicts = catalog.offering.verdicts
        if verdicts is None:
            return
        number = {"passed": 0, "failed": 0, "untested": 0}
        for environment in catalog.environments.values():
            tested = [each.passed for each in verdicts.get(environment.fingerprint, {}).values()]
            number["untested" if not tested else "passed" if all(tested) else "failed"] += 1
        family = GaugeMetricFamily(
            "portal_catalog_environments",
            "Environments of the catalog by the verdict of their newest tests.",
            labels=("verdict",),
        )
        for verdict, count in number.items():
            family.add_metric([verdict], count)
        yield family

    async def _certificates(self) -> AsyncIterator[Metric]:
        if (expiry := await self._certificate.get()) is not None:
            yield GaugeMetricFamily(
                "portal_certificate_expiry_timestamp_seconds",
                "Time at which the certificate of the portal's address expires.",
                value=expiry,
            )


async def _collected(part: Callable[[], AsyncIterator[Metric]]) -> list[Metric]:
    """Return what a part yields; nothing of one that cannot answer now."""
    try:
        return [metric async for metric in part()]
    except PortalError:
        return []


def _folders(parts: Services, config: Config) -> list[tuple[str, Path]]:
    """Return what the portal writes, and where; as ``portal doctor --only=disk``."""
    found = []
    if (path := parts.store.database.address.path) is not None:
        found.append(("database", path))
    try:
        hub = make_url(str(config.JupyterHub.get("db_url", "") or "sqlite:///jupyterhub.sqlite"))
    except ArgumentError:
        hub = None
    if hub is not None and hub.get_backend_name() == "sqlite" and hub.database:
        found.append(("hub_database", Path(hub.database).absolute()))
    found.append(("session_logs", Path(str(config.PortalSpawner.get("log_directory", _LOGS)))))
    if config.get("Images"):
        found.append(("build_logs", Path(Images(config=config).log_directory)))
    return found
