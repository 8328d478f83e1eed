"""``api/v1/destinations``: what a user can go to by name, among what the user may see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated
from urllib.parse import quote, urlencode

from pydantic import Field

from portal.errors import PortalError
from portal.launch.kinds import kind_of
from portal.models import Frozen
from portal.models.destination import Destination, best, words_of
from portal.models.scope import SESSIONS_READ
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.links import server_url

from ..base.endpoint import Endpoint, Operation, Query
from ..catalog.items import as_seen_by_catalog
from .site import site_destinations

_MOST = 8  # of one kind
_RECORDS = 20  # sessions that are read
_PATIENCE = 0.5  # seconds for one source

Source = Callable[[str], Awaitable[Sequence[Destination]]]


class DestinationQuery(Query):
    """Text to search for."""

    text: Annotated[
        str,
        Field(max_length=100, description="Words, all of which the title and details contain."),
    ] = ""


class DestinationList(Frozen):
    """Destinations, those of a kind together and the best first. ``complete`` is false if a source,
    such as the database, did not answer in time."""

    items: tuple[Destination, ...]
    complete: bool


class Destinations(Endpoint):
    """Pages, actions and objects by name."""

    path = "destinations"

    @Operation("Find pages, actions and objects by name.", query=DestinationQuery)
    async def on_get(self) -> DestinationList:
        """Return at most 8 of a kind, of what you may see; without a text all pages and actions,
        and what is newest."""
        text = self.query.text.strip()
        most = _MOST if text else _RECORDS
        sources: list[Source] = [self._site, self._sessions]
        for made in self.parts.of_features.values():
            if source := getattr(made, "destinations_for", None):
                sources.append(partial(source, self.person))
        if text:
            sources += [self._environments, self._nodes]
        answers = await asyncio.gather(*map(self._answer, sources))
        of_kind: dict[str, dict[str, Destination]] = {}
        for destination in (entry for answer in answers for entry in answer or ()):
            # A feature may know of a page that the navigation has too.
            of_kind.setdefault(destination.kind, {}).setdefault(destination.url, destination)
        items = [
            destination
            for known in of_kind.values()
            for destination in best(known.values(), text, most)
        ]
        return DestinationList(items=tuple(items), complete=None not in answers)

    async def _answer(self, source: Source) -> Sequence[Destination] | None:
        """Return what a source has; None if it does not answer."""
        try:
            return await asyncio.wait_for(source(self.query.text), _PATIENCE)
        except (PortalError, TimeoutError):
            return None

    async def _site(self, text: str) -> Sequence[Destination]:
        groups = self.parts.groups_of(self.person)
        return list(site_destinations(self.person, groups, self.parts.base, self.parts.prefix))

    async def _sessions(self, text: str) -> Sequence[Destination]:
        """Return the user's sessions, without those that stand for a run or a kernel, and others'
        that live to those who may see them."""
        user, word = self.person.name, max(words_of(text), key=len, default=None)
        records, _ = await self.parts.store.sessions.find(
            user=user, text=word, ended=None if word else False, limit=_RECORDS
        )
        # Of those that live, the node may be what the user knows.
        view, others = self.parts.dashboard.view, self.person.may(SESSIONS_READ)
        living = view.sessions.values() if word and view is not None else ()
        seen = [record for record in living if others or record.user == user]
        found = []
        for record in {record.id: record for record in (*seen, *records)}.values():
            if kind_of(record).serves:
                found.append(self._session(record))
                if record.user == user and record.state is SessionState.RUNNING:
                    title = f"Open {found[-1].title}"
                    url = server_url(record, self.parts.base)
                    found.append(Destination(kind="action", title=title, url=url))
        return found

    def _session(self, record: SessionRecord) -> Destination:
        other = record.user if record.user != self.person.name else ""
        job = f"job {record.job_id}" if record.job_id else ""
        details = (other, record.server, str(record.state), job, *record.nodes)
        return Destination(
            kind="session",
            title=record.environment_title or record.environment or "Session",
            detail=", ".join(filter(None, details)),
            url=f"{self.parts.prefix}sessions/{record.id}",
        )

    async def _environments(self, text: str) -> Sequence[Destination]:
        await self.parts.catalog.load()
        person = as_seen_by_catalog(self.person)
        return [
            Destination(
                kind="environment",
                title=environment.title,
                detail=environment.name,
                url=f"{self.parts.prefix}catalog/environments/{environment.name}",
            )
            for environment in self.parts.catalog.visible_to(person)
        ]

    async def _nodes(self, text: str) -> Sequence[Destination]:
        view = self.parts.dashboard.view
        return [
            Destination(
                kind="node",
                title=node.name,
                detail=node.words,
                url=f"{self.parts.prefix}?{urlencode({'text': node.name}, quote_via=quote)}",
            )
            for node in (view.nodes.values() if view else ())
        ]


ENDPOINTS = (Destinations,)
