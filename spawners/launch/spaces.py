"""Checks of sessions in spaces, in the Hub: who is a member, whether it has sessions now, and what
is left of its budget. The rules that follow from that are pure (portal/spaces/, portal/launch/).

A type of spaces can say what differs for it, in a subclass of ``SpaceLaunch`` that its
``JobSpace.launch`` names.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Sequence

from jupyterhub import orm

from portal.catalog.offers.in_space import environment_in
from portal.errors import NotAllowed, PortalError
from portal.launch.in_space import check_asked
from portal.launch.kinds import Address
from portal.launch.kinds.closed import closed
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import AskedFor, Kind, LaunchFacts, Place
from portal.models.catalog.environment import Bind, Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.space import STAFF, Role, Space, StoredSpace
from portal.spaces.job_space import JobSpace
from portal.spaces.registry import space_type_at, type_of
from portal.work.member_gpus import held_gpus, too_many, too_many_points
from portal.work.run.kind import Run

from ..lifecycle.stop_reason import SERVICE
from ..session import SessionSpawner
from .other_launches import other_launches

_PATIENCE = 0.3  # seconds that a page waits for the database


class SpaceLaunch:
    """Launches of sessions of one member in the space ``stored``."""

    def __init__(self, spawner: SessionSpawner, stored: StoredSpace, role: Role) -> None:
        self.spawner, self.stored, self.role = spawner, stored, role

    @property
    def type_(self) -> type[JobSpace]:
        """Type of the space."""
        return type_of(self.stored.space)

    @property
    def charged(self) -> bool:
        """True if the space's budget and account are charged."""
        return True

    def check(self, kind: Kind, asked: AskedFor) -> None:
        """Raise NotAllowed for what this member cannot start."""

    def placed(self, environment: Environment, facts: LaunchFacts, space: JobSpace) -> Environment:
        """Return ``environment`` with the space's folders. Raises NotAllowed."""
        return with_data(environment, self.stored.space)

    async def snapshot(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return the cluster as the space's sessions need to know it."""
        return snapshot

    async def job_space(self, kind: Kind) -> JobSpace:
        """Return the space as the job sees it. Raises PortalError."""
        space = self.stored.space
        return self.type_(name=space.name, title=space.title, role=self.role)

    def upcoming(self, now: float) -> str:
        """Return when its members meet next; "" if they do not."""
        return ""

    def about(self, kind: type[Kind]) -> str:
        """Return a sentence on the sessions of this kind, for their launch page."""
        return kind.about or f"Your session of the {self.stored.space.noun}."


async def _launch(spawner: SessionSpawner, type_: type[JobSpace], name: str) -> SpaceLaunch:
    """Return the owner's launches in a space of this type, whose membership is queried anew: the
    space may be seconds old, and all ask for it at once. Raises NotAllowed, StoreUnavailable."""
    memberships, user = spawner.shared.memberships.of_type(type_.noun), spawner.user.name
    await memberships.of_user(user, fresh=True)
    membership = await memberships.membership(user, name)
    stored = membership.stored
    of_type = type_of(stored.space).launch
    made: type[SpaceLaunch] = pkgutil.resolve_name(of_type) if of_type else SpaceLaunch
    return made(spawner, stored, membership.role)


async def place_in_space(
    spawner: SessionSpawner, kind: Kind, asked: AskedFor, facts: LaunchFacts
) -> Place:
    """Return a session of a space as it may be launched now. Raises InvalidRequest, NotAllowed,
    StoreUnavailable."""
    launch = await _launch(spawner, type(kind.space), kind.space_name)
    stored, space = launch.stored, launch.stored.space
    now = time.time()
    reason = closed(type(kind), stored, launch.role, now)
    if reason:
        raise NotAllowed(reason)
    if not facts.runs:
        _may_start(spawner, kind, launch.role, space)
    launch.check(kind, asked)
    catalog = spawner.shared.catalog
    await catalog.load()
    environment = await environment_in(catalog, stored, spawner.person, asked.environment)
    check_asked(asked.given(), environment, space)
    spent = await spawner.shared.budgets.spent(space) if launch.charged else ""
    needs_gpus = kind.needs_gpus(asked, space)
    if spent and (asked.resources.gpus or needs_gpus):
        raise NotAllowed(spent)
    offered = kind.narrowed(environment, space, asked, gpus=launch.charged and not spent)
    snapshot = await launch.snapshot(facts.snapshot)
    offered = launch.type_.now(
        space.name,
        offered,
        snapshot,
        spawner.person,
        facts.associations,
        time.time(),
        needs_gpus=needs_gpus,
    )
    job_space = await launch.job_space(kind)
    offered = launch.placed(offered, facts, job_space)
    # Nothing is awaited after this, or launches at the same moment would not see each other.
    _check_held(spawner, kind, space, offered, asked)
    return Place({offered.name: offered}, snapshot, kind.model_copy(update={"space": job_space}))


async def offered_spaces(spawner: SessionSpawner) -> list[Space]:
    """Return the owner's spaces that the launch page offers, by title; while the database does not
    answer, those known before."""
    memberships, user = spawner.shared.memberships, spawner.user.name
    try:
        own = [*(await memberships.mine(user, patience=_PATIENCE)).values()]
    except (PortalError, TimeoutError):
        own = memberships.known_to(user)
    now = time.time()
    spaces = [
        membership.stored.space
        for membership in own
        if type_of(membership.stored.space).offered
        and not closed(JupyterLab, membership.stored, membership.role, now)
    ]
    return sorted(spaces, key=lambda space: space.title.casefold())


async def space_form(
    spawner: SessionSpawner, address: Address, problems: Sequence[str], server: str | None = None
) -> str:
    """Return the launch form of a space's session: a button, or why there is none. ``problems``:
    why the person could start no session at all; ``server``: its name, if not the spawner's."""
    now, title, upcoming, note, about = time.time(), "", "", "", address.kind.about
    problems, of_type = (
        list(problems),
        space_type_at(spawner.name if server is None else server) or JobSpace,
    )
    try:
        launch = await _launch(spawner, of_type, address.space)
        stored, about = launch.stored, launch.about(address.kind)
        title, upcoming = stored.space.title, launch.upcoming(now)
        if reason := closed(address.kind, stored, launch.role, now):
            problems.append(reason)
        note = await spawner.shared.budgets.spent(stored.space)
    except PortalError as error:
        problems.append(error.message)
    return spawner.shared.form.render_in_space(
        noun=of_type.noun,
        option=of_type.option,
        space=address.space,
        title=title,
        meeting=upcoming,
        note=note,
        about=about,
        problems=problems,
    )


def _may_start(spawner: SessionSpawner, kind: Kind, role: Role, space: Space) -> None:
    """Raise NotAllowed if only staff, or the service, may start such a session."""
    if role in STAFF or kind.starters == "members":
        return
    if kind.starters != "service":
        raise NotAllowed(f"Only the staff of a {space.noun} can start this session.")
    asker = getattr(spawner.handler, "current_user", None)
    if not (isinstance(asker, orm.Service) and asker.name == SERVICE):
        raise NotAllowed(
            f"Only the staff of a {space.noun} can start a {kind.name}, from the {space.noun}'s "
            "page."
        )


def _check_held(
    spawner: SessionSpawner,
    kind: Kind,
    space: Space,
    offered: Environment,
    asked: AskedFor,
) -> None:
    """Raise NotAllowed if the owner would have more in the space at once than it allows: GPUs in
    the session, its kernels and its runs together, CPUs in runs. Rooms, rehearsals and previews do
    not count."""
    if kind.serves and not kind.job_kernels:
        return
    launches = other_launches(spawner)
    gpus = asked.given().get("gpus", offered.default.gpus)
    if isinstance(kind, Run):
        cpus = asked.given().get("cpus", offered.default.cpus) or 1
        reason = too_many_points(space, kind.run, gpus, cpus, launches, offered.max_cpus)
    else:
        held, wanted = held_gpus(space, launches), gpus * offered.default.nodes
        only_session = kind.serves and not (held.kernels or held.runs)
        reason = "" if only_session else too_many(space, wanted, held, beside=not kind.serves)
    if reason:
        raise NotAllowed(reason)


def with_data(environment: Environment, space: Space) -> Environment:
    """Return ``environment`` with only read-only binds of its own, and the space's data."""
    binds = [bind for bind in environment.binds if bind.read_only]
    if space.data:
        binds.append(Bind(source=space.data))
    return environment.model_copy(update={"binds": tuple(binds)})
