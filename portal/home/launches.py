"""Home's part of launches: favourites, and what was launched last, each with one click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from portal.catalog.offers.preferences import Preferences, ordered
from portal.handlers.catalog.items import as_seen_by_catalog
from portal.launch.kinds import offered_kinds
from portal.models.person import Person
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store

from .words import resources_words

if TYPE_CHECKING:
    from portal.assembly import Services

_SHOWN = 4
_READ = 50  # the newest launches, whose options are known


class HomeLaunch(NamedTuple):
    """Environment to launch: its ``resources`` in words, the launch page's address (``form``), and
    whether it is a ``favourite``."""

    name: str
    title: str
    icon: str
    resources: str
    form: str
    favourite: bool


class HomeLaunches:
    """Launches of a user's default session."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def load(self, person: Person) -> Mapping[str, Any] | None:
        """Return favourites first, then by last use; None if nothing was used or marked yet."""
        services, catalog = self._services, self._services.catalog
        liked = frozenset(await services.store.favourites.of_user(person.name))
        recent = await _recent(services.store, person.name)
        await catalog.load()
        used = {record.environment: record.submitted_at for record in reversed(recent)}
        offered = ordered(catalog.visible_to(as_seen_by_catalog(person)), Preferences(liked, used))
        shown = [known for known in offered if known.name in liked or known.name in used][:_SHOWN]
        if not shown:
            return None
        return {
            "launches": [
                HomeLaunch(
                    name=known.name,
                    title=known.title,
                    icon=services.tiles.tile_for(known).icon,
                    resources=resources_words(_options(recent, known.name), services.gpu_titles),
                    form=f"{services.base}hub/spawn?{urlencode({'opt-environment': known.name})}",
                    favourite=known.name in liked,
                )
                for known in shown
            ],
            "progress": f"{services.base}hub/spawn-pending/{quote(person.name, safe='@~')}",
            # Only one default session runs at a time.
            "busy": any(r.state is not SessionState.ENDED for r in recent if not r.server),
        }


async def options_for(store: Store, user: str, environment: str) -> dict[str, Any]:
    """Return the ``user_options`` of the user's last launch of an environment; without one, only
    its name. Raises StoreUnavailable."""
    return _options(await _recent(store, user), environment)


async def _recent(store: Store, user: str) -> list[SessionRecord]:
    records = await store.sessions.launches(user, offered_kinds(), limit=_READ)
    return [record for record in records if not record.space]


def _options(recent: Sequence[SessionRecord], environment: str) -> dict[str, Any]:
    of_environment = (record.again for record in recent if record.environment == environment)
    return next(of_environment, {"environment": environment})
