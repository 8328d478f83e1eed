"""Environments that are built or tested for the first time, for those who will see them."""

from __future__ import annotations

from portal.models import Frozen
from portal.models.catalog.catalog import Build, EnvironmentVersion
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.models.person import Person
from portal.store import Store

from ..files import EnvironmentCatalog

UNDER_WAY = (EnvironmentState.BUILDING, EnvironmentState.TESTING)
# Steps of a build in order (portal.images.jobs.building), then the tests.
_STEPS = {
    "": "waiting for a node",
    "prepare": "preparing",
    "pull": "fetching the image",
    "probe": "inspecting the image",
    "install": "adding the server",
    "write": "writing the image file",
    "verify": "verifying the image",
    "sign": "signing the image",
    "test": "testing",
}
_SAME = {"queue": "", "start": "prepare", "done": "test", "end": "test"}
_ORDER = tuple(_STEPS)


class Upcoming(Frozen):
    """Environment that is not offered yet. ``step`` is a phrase; ``share``, 0 to 1, is the part of
    its steps that are done."""

    name: str
    title: str
    step: str
    share: float


async def upcoming(
    catalog: EnvironmentCatalog, store: Store, person: Person, *, curates: bool
) -> list[Upcoming]:
    """Return the environments that ``person`` will see once they are published, oldest first.

    Only those who curate see them, unless ``catalog.show_upcoming``. Raises StoreUnavailable.
    """
    if not (curates or catalog.show_upcoming):
        return []
    entries = []
    for version in await store.versions.in_state(*UNDER_WAY):
        if version.name in catalog.environments or not _sees(catalog, person, version.environment):
            continue
        build = None if version.build_id is None else await store.builds.get(version.build_id)
        entries.append(_entry(version, build))
    return entries


def _sees(catalog: EnvironmentCatalog, person: Person, environment: Environment) -> bool:
    return not environment.private and catalog.sees(person, environment)


def _entry(version: EnvironmentVersion, build: Build | None) -> Upcoming:
    step = "test" if version.state is EnvironmentState.TESTING or build is None else build.step
    step = _SAME.get(step, step)
    if step not in _STEPS:
        step = "prepare"
    within = (build.share or 0) if build is not None and step != "test" else 0
    return Upcoming(
        name=version.name,
        title=version.environment.title,
        step=_STEPS[step],
        share=round((_ORDER.index(step) + within) / len(_ORDER), 3),
    )
