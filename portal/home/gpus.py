"""Home's part of GPUs: what is free of each type, and the expected wait for one of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from portal.dashboard import ClusterView
from portal.errors import SlurmUnavailable
from portal.launch.availability import Availability, availability
from portal.launch.estimate_words import starts
from portal.launch.partitions import Associations, allowed_partitions, choose_partition
from portal.models.cluster.cluster import Association
from portal.models.cluster.gpu_share import title_of
from portal.models.person import Person
from portal.models.session.estimate import Outlook
from portal.models.session.resources import Resources

if TYPE_CHECKING:
    from portal.assembly import Services

_PATIENCE = 0.1  # seconds that the part waits for accounting
_WAITS = {Outlook.UNKNOWN: "wait unknown", Outlook.REFUSED: "not for your account"}


class HomeGpus(NamedTuple):
    """Type of GPUs, with its ``title``: how many of ``total`` are ``free``, when one would be had
    (``wait``, with its ``outlook``), and the address of the launch page for it."""

    type: str
    title: str
    free: int
    total: int
    wait: str
    outlook: str
    url: str


class FreeGpus:
    """Free GPUs by type, in the partitions that are open to a user. Slurm is not asked: all comes
    from the dashboard's view, and what is free is counted once for all users of a view."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._version = ""  # of the view that was counted
        self._supplies: dict[tuple[str, ...], Availability] = {}  # by names of partitions

    async def load(self, person: Person) -> Mapping[str, Any] | None:
        """Return the types, and why they are old; None without GPUs. Raises SlurmUnavailable."""
        services, view = self._services, self._services.dashboard.view
        if view is None:
            raise SlurmUnavailable(services.dashboard.error or "Slurm has not answered yet.")
        associations = await self._associations(person.name)
        partitions = allowed_partitions(person, view.snapshot, associations)
        supply = await self._supply(view, tuple(partition.name for partition in partitions))
        types = [
            self._type(name, gpu.free, gpu.total, person, view, associations)
            for name, gpu in supply.gpus.items()
        ]
        if not types:
            return None
        return {
            "types": types,
            "old": view.error,
            "taken_at": view.taken_at,
            "simulated": view.simulated,
        }

    def _type(
        self,
        name: str,
        free: int,
        total: int,
        person: Person,
        view: ClusterView,
        associations: Associations,
    ) -> HomeGpus:
        services, snapshot = self._services, view.snapshot
        usual = services.default_resources.given()
        wanted = Resources(**{**usual, "gpus": 1, "gpu_type": name})
        partition = wanted.partition or choose_partition(wanted, person, snapshot, associations)
        wanted = wanted.model_copy(update={"partition": partition})
        estimate = services.estimates.known(wanted, person.name, snapshot, associations)
        return HomeGpus(
            type=name,
            title=title_of(name, services.gpu_titles),
            free=free,
            total=total,
            wait=_WAITS.get(estimate.outlook) or starts(estimate, estimate.made_at),
            outlook=estimate.outlook.value,
            url=f"{services.base}hub/spawn?{urlencode({'opt-gpus': 1, 'opt-gpu_type': name})}",
        )

    async def _supply(self, view: ClusterView, names: tuple[str, ...]) -> Availability:
        if self._version != view.id:
            self._version, self._supplies = view.id, {}
        supplies = self._supplies
        if names not in supplies:
            supplies[names] = await asyncio.to_thread(availability, view.snapshot, names)
        return supplies[names]

    async def _associations(self, user: str) -> tuple[Association, ...] | None:
        """Return what the user may charge, as far as accounting tells it in a moment."""
        cluster = self._services.cluster
        try:
            async with asyncio.timeout(_PATIENCE):  # it goes on for the next caller
                return await cluster.associations(user)
        except (SlurmUnavailable, TimeoutError):
            return cluster.known_associations(user)
