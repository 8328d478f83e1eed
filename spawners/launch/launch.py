"""Launch on the Hub's side: the page's form and the check of what it sends.

Both use the same facts (this person's environments, associations and folders, the shared
snapshot), so that the page offers what the launch will accept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portal.catalog.versions.pins import pinned
from portal.errors import NotAllowed, NotFound, PortalError, SlurmUnavailable
from portal.launch.kinds.kind import (
    AskedFor,
    Kind,
    LaunchFacts,
    OtherLaunch,
    Place,
    SlurmLimits,
)
from portal.launch.policy import decide
from portal.launch.request import Asked, LaunchRequest
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Association, ClusterSnapshot
from portal.models.session.resources import Resources

from ..host.storage import StorageArea
from ..session import SessionSpawner
from .other_launches import other_launches
from .spaces import offered_spaces, place_in_space, space_form
from .submit import tensorboard_roots
from .unknown_jobs import end_unknown

# A launch and its page need partitions and nodes, not the newest jobs: they do not wait for
# their turn to ask Slurm.
JOBS_MAY_BE_OLD = 15  # seconds
# Seconds that a launch waits for a late Slurm beyond c.Cluster.patience: a refusal should come
# before JupyterHub answers that the server is pending (c.JupyterHub.tornado_settings
# slow_spawn_timeout, 10 s).
_LATE = 5.0


class Readiness(NamedTuple):
    """Facts about a person. ``problems``: sentences why no session of theirs could start."""

    associations: Sequence[Association] | None  # None: no accounting, or it does not answer
    storage: Sequence[StorageArea]
    problems: Sequence[str]
    error: type[PortalError] = NotAllowed  # class of a refusal
    missing: bool = False  # no account, home or association, which a site may make on demand
    unknown: str = ""  # a sentence if the associations could not be read


async def environments(spawner: SessionSpawner) -> dict[str, Environment]:
    """Return the environments that the owner may use, by name, in page order."""
    await spawner.shared.catalog.load()
    return {e.name: e for e in spawner.shared.catalog.visible_to(spawner.person)}


async def readiness(spawner: SessionSpawner) -> Readiness:
    """Check the owner's account, associations and folders; make what is missing first, if the
    site has a ``preparation_hook`` for that."""
    ready = await _look(spawner)
    if not ready.missing or spawner.preparation_hook is None:
        return ready
    failure = await spawner.shared.preparation.failure(spawner, spawner.shared.form.contact)
    spawner.shared.cluster.forget(spawner.user.name)
    ready = await _look(spawner)
    return ready._replace(problems=[failure, *ready.problems]) if failure else ready


async def _look(spawner: SessionSpawner) -> Readiness:
    shared, unknown = spawner.shared, ""
    try:
        associations = await shared.cluster.associations(spawner.user.name)
    except SlurmUnavailable as error:
        spawner.log.warning("Associations of %s: %s", spawner.user.name, error)
        associations = None
        unknown = (
            "Your Slurm accounts cannot be read now, so only Slurm checks whether a session "
            f"may start. {error.message}"
        )
    try:
        home = await spawner.home()
    except PortalError as error:
        missing = isinstance(error, NotAllowed) or associations == ()
        return Readiness(associations, (), [error.message], type(error), missing, unknown)
    storage = await shared.storage.query_areas(spawner.user.name, home)
    return Readiness(
        associations,
        storage,
        shared.form.problems(associations, spawner.person, storage),
        missing=associations == () or any(area.missing for area in storage),
        unknown=unknown,
    )


async def _snapshot(spawner: SessionSpawner, *, late: float = 0.0) -> ClusterSnapshot:
    cluster, moment = spawner.shared.cluster, time.monotonic() - JOBS_MAY_BE_OLD
    return await cluster.snapshot(moment, jobs_only=False, qos=True, late=late)


async def _known_snapshot(spawner: SessionSpawner) -> ClusterSnapshot | None:
    try:
        return await _snapshot(spawner)
    except SlurmUnavailable:
        return None


async def _offered(spawner: SessionSpawner) -> list[Environment]:
    """Return the environments that the owner may use, with their tiles made."""
    offered = await environments(spawner)
    await spawner.shared.tiles.refresh()
    return list(offered.values())


async def render_form(
    spawner: SessionSpawner,
    server: str | None = None,
    linked: Mapping[str, Any] | None = None,
    problem: str = "",
) -> str:
    """Return the HTML of the owner's launch form, now; for a space's session it is one button.

    ``server``: name of the server to start, if it is not the spawner's; ``linked``: options of a
    link; ``problem``: why nothing can be started, "" if it can.
    """
    address = spawner.reserved if server is None else spawner.reserved_as(server)
    if address is not None and address.space:
        return await space_form(spawner, address, (await readiness(spawner)).problems, server)
    form = spawner.shared.form
    # At once, since each waits for a turn of the loop, which is busy while a class starts.
    snapshot, ready, preferences, offered, spaces = await asyncio.gather(
        _known_snapshot(spawner),
        readiness(spawner),
        spawner.shared.favourites.preferences_of(spawner.user.name),
        _offered(spawner),
        offered_spaces(spawner),
    )
    view = form.view(
        snapshot,
        offered,
        ready.associations,
        spawner.person,
        last=spawner.options_again or None,
        linked=linked,
        storage=ready.storage,
        problems=[problem, *ready.problems] if problem else ready.problems,
        unknown=ready.unknown,
        defaults=Resources.model_validate(spawner.default_resources),
        preferences=preferences,
        tiles=spawner.shared.tiles.tile_for,
        spaces=spaces,
    )
    return form.render(view)


async def considered(
    spawner: SessionSpawner, asked: Asked
) -> tuple[LaunchRequest, ClusterSnapshot, Sequence[Association] | None]:
    """Return the request that ``asked`` would become, and the facts behind it: a launch's policy
    without the check of the owner's folders, too costly for a page that asks again and again.
    Nothing is made for the owner. Raises PortalError with the reason."""
    snapshot = await _snapshot(spawner)
    try:
        associations = await spawner.shared.cluster.associations(spawner.user.name)
    except SlurmUnavailable:
        associations = None
    place = await _placed(spawner, asked, LaunchFacts(snapshot, associations))
    request = _decided(spawner, asked, place, associations)
    return request, place.snapshot, associations


async def launch_request(
    spawner: SessionSpawner, options: Mapping[str, Any], *, runs: bool = False
) -> LaunchRequest:
    """Check ``user_options``, wherever they come from. ``runs``: the session runs already, and
    gets other resources. Raises PortalError with the reason."""
    asked = Asked.parse(options)  # first: malformed options make no home
    address = spawner.reserved
    if not asked.kind.space_name and not (address is not None and address.space):
        return await _validated(spawner, asked, runs=runs)
    with spawner.shared.refused.bounded(spawner, runs=runs):
        return await _validated(spawner, asked, runs=runs)


async def _validated(spawner: SessionSpawner, asked: Asked, *, runs: bool) -> LaunchRequest:
    snapshot = await _snapshot(spawner, late=_LATE)
    if snapshot.error:
        raise SlurmUnavailable(
            f"Slurm does not answer now, so nothing was submitted. {snapshot.error} Running "
            "sessions continue. Try again in a minute."
        )
    if not runs:
        await end_unknown(spawner, asked.kind)
    ready = await readiness(spawner)
    if ready.problems:
        raise ready.error(" ".join(ready.problems))
    place = await _placed(spawner, asked, LaunchFacts(snapshot, ready.associations, runs))
    return _decided(spawner, asked, place, ready.associations)


async def _placed(spawner: SessionSpawner, asked: Asked, facts: LaunchFacts) -> Place:
    owner = spawner.reserved.kind if spawner.reserved is not None else None
    kind = asked.kind.at(spawner.name, owner)
    return await kind.place(asked, _Lookup(spawner), facts)


def _decided(
    spawner: SessionSpawner,
    asked: Asked,
    place: Place,
    associations: Sequence[Association] | None,
) -> LaunchRequest:
    return decide(
        asked,
        spawner.person,
        place.environments,
        place.snapshot,
        associations,
        Resources.model_validate(spawner.default_resources),
        kind=place.kind,
    )


class _Lookup:
    """Facts about the launch of a spawner's owner (portal.launch.kinds.kind.Lookup)."""

    def __init__(self, spawner: SessionSpawner) -> None:
        self._spawner = spawner
        self.home = spawner.home
        self.settings = spawner.shared.settings.get

    async def environments(self) -> dict[str, Environment]:
        return await environments(self._spawner)

    async def pinned(self, environment: Environment, version: int) -> Environment:
        shared = self._spawner.shared
        return await pinned(shared.catalog, shared.store, environment, version)

    def roots(self, environment: Environment) -> Sequence[str]:
        return tensorboard_roots(self._spawner, environment)

    def others(self) -> Sequence[OtherLaunch]:
        return other_launches(self._spawner)

    def setting(self, name: str) -> Any:
        return getattr(self._spawner, name)

    async def recorded(self, table: type[Any], id_: str) -> Any:
        try:
            return await self._spawner.shared.store.table(table).get(self._spawner.user.name, id_)
        except NotFound:
            return None

    async def slurm_limits(self) -> SlurmLimits:
        cluster = self._spawner.shared.cluster
        return SlurmLimits(await cluster.most_array_tasks(), await cluster.kill_wait())

    async def in_space(self, kind: Kind, asked: AskedFor, facts: LaunchFacts) -> Place:
        return await place_in_space(self._spawner, kind, asked, facts)
