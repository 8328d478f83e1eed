"""Announcements: messages to all users, with a start and an end."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from . import Frozen

_Time = Annotated[float, Field(ge=0, le=32503680000, allow_inf_nan=False)]  # up to the year 3000


class Level(StrEnum):
    """Severity of an announcement."""

    INFO = "info"
    WARNING = "warning"


class AnnouncementDraft(Frozen):
    """Announcement as an admin writes it. Times are Unix seconds; ``text`` is plain text."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]
    level: Level = Level.INFO
    starts_at: _Time
    ends_at: _Time

    @model_validator(mode="after")
    def _ends_after_start(self) -> AnnouncementDraft:
        if self.ends_at <= self.starts_at:
            raise ValueError("'ends_at' must be after 'starts_at'")
        return self


class Announcement(AnnouncementDraft):
    """Announcement as stored."""

    id: int
    author: str
    created_at: float
