"""``api/v1/announcements``: messages to all, with a start and an end."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.errors import InvalidRequest, NotFound
from portal.models import scope
from portal.models.announcement import Announcement, AnnouncementDraft
from portal.models.audit import AuditAction
from portal.models.plain_text import PLAIN_TEXT

from ..base.action import Action
from ..base.endpoint import Operation
from ..base.paging import Page, PageQuery, page, page_of


class AnnouncementQuery(PageQuery):
    """Filter and page of the announcements."""

    active: Annotated[
        bool,
        Field(
            description="Only active announcements. Users who may not write announcements "
            "get no others."
        ),
    ] = False


class AnnouncementBody(AnnouncementDraft):
    """Announcement to publish: plain text, shown as text. Times are Unix seconds."""

    text: Annotated[
        str,
        StringConstraints(min_length=1, max_length=2000, strip_whitespace=True),
        *PLAIN_TEXT,
    ]


class Announcements(Action):
    """List of the announcements."""

    path = "announcements"

    @Operation("List announcements.", query=AnnouncementQuery)
    async def on_get(self) -> Page[Announcement]:
        """Return the active ones, or all to those who may write announcements; newest first."""
        query = self.query
        table = self.parts.store.announcements
        if self.person.may(scope.ANNOUNCEMENTS_MANAGE) and not query.active:
            items, total = await table.all(query.offset, query.limit)
            return page(items, query, total)
        return page_of(await table.active(time.time()), query)

    @Operation(
        "Publish an announcement.",
        body=AnnouncementBody,
        scope=scope.ANNOUNCEMENTS_MANAGE,
        status=201,
    )
    async def on_post(self) -> Announcement:
        """Show it on every page from 'starts_at' to 'ends_at'."""
        draft, now = self.body, time.time()
        if draft.ends_at <= now:
            raise InvalidRequest("'ends_at' is in the past. Choose a later time.", "ends_at")
        async with self.audited(AuditAction.ANNOUNCE, "announcement", detail=draft.text) as line:
            announcement = await self.parts.store.announcements.add_announcement(
                draft, self.person.name, now
            )
            line.target = f"announcement {announcement.id}"
        self.parts.situations.announcements.invalidate()
        return announcement


class OneAnnouncement(Action):
    """Announcement by its id."""

    path = "announcements/{announcement_id}"
    parameters = {"announcement_id": "[0-9]{1,9}"}

    @Operation("Withdraw an announcement.", scope=scope.ANNOUNCEMENTS_MANAGE)
    async def on_delete(self, announcement_id: str) -> None:
        """End it now and keep it in the list; remove it if it has not begun."""
        async with self.audited(
            AuditAction.WITHDRAW_ANNOUNCEMENT, f"announcement {announcement_id}"
        ):
            table = self.parts.store.announcements
            if await table.withdraw(int(announcement_id), time.time()) is None:
                raise NotFound(f"There is no announcement {announcement_id}.")
        self.parts.situations.announcements.invalidate()


ENDPOINTS = (Announcements, OneAnnouncement)
