"""Course endpoints."""

from __future__ import annotations

from . import (
    board,
    collects,
    courses,
    handouts,
    lifecycle,
    live,
    people,
    room,
    roster,
    starts,
    usage,
)

ENDPOINTS = (
    *live.ENDPOINTS,
    *board.ENDPOINTS,
    *collects.ENDPOINTS,
    *handouts.ENDPOINTS,
    *people.ENDPOINTS,
    *room.ENDPOINTS,
    *roster.ENDPOINTS,
    *lifecycle.ENDPOINTS,
    *usage.ENDPOINTS,
    *courses.ENDPOINTS,
    *starts.ENDPOINTS,
)
