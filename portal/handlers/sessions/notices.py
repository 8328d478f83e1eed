"""``api/v1/notices``: mail when a session has started and before it ends."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from portal.errors import Conflict
from portal.models import Frozen

from ..base.endpoint import Endpoint, Operation


class NoticeWish(BaseModel):
    """Mail preference of the person."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    mail: Annotated[bool, Field(description="Mail about your sessions.")]


class NoticeSettings(Frozen):
    """``mail``: whether the person gets mail; ``available``: whether this site sends any.

    ``before_end``: seconds before a session's end at which mail is sent.
    """

    available: bool
    mail: bool
    before_end: int


class OwnNotices(Endpoint):
    """Mail preference of the requester."""

    path = "notices"

    @Operation("Get whether mail about your sessions is on.")
    async def on_get(self) -> NoticeSettings:
        """Return your own setting; those of other users cannot be read."""
        notices = self.parts.notices
        mail = notices.on and await notices.wishes_of(self.person.name)
        return NoticeSettings(available=notices.on, mail=mail, before_end=notices.before_end)

    @Operation("Turn mail about your sessions on or off.", body=NoticeWish, errors=(409,))
    async def on_put(self) -> NoticeSettings:
        """Send a mail when a session that waited has started, and another before its end."""
        notices, wish = self.parts.notices, self.body
        if wish.mail and not notices.on:
            raise Conflict("This site sends no mail.")
        if wish.mail:
            await notices.address_for(self.person.name)  # an unknown address is reported here
        await self.parts.store.notices.wish(self.person.name, wish.mail, time.time())
        return NoticeSettings(available=notices.on, mail=wish.mail, before_end=notices.before_end)


ENDPOINTS = (OwnNotices,)
