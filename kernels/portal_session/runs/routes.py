"""Routes of the session's broker for runs: ``portal-run`` asks the portal through them, since only
the session's server has the token."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Callable
from urllib.parse import urlencode

from ..job_kernels.broker_handler import BrokerHandler

SUBMISSION = "session/runs"  # of the service
RUNS = "runs"
SCHEDULES = "runs/schedules"
ID = "[0-9a-f][0-9a-f-]{7,39}"
_MOST = 200  # runs in a list, the newest
_OF_POINTS = ("state", "sort", "offset", "limit")

Ask = Callable[..., Awaitable[dict[str, Any]]]


class _Handler(BrokerHandler):
    """Handler of a request of portal-run."""

    def initialize(self, ask: Ask) -> None:
        self.ask = ask


class RunsHandler(_Handler):
    """``/runs``: the user's runs, and a new one."""

    async def get(self) -> None:
        await self.answer(self.ask("GET", f"{RUNS}?limit={_MOST}"))

    async def post(self) -> None:
        await self.answer_body(lambda body: self.ask("POST", SUBMISSION, body))


class ChoicesHandler(_Handler):
    """``/runs/choices``: what can be chosen for a run."""

    async def get(self) -> None:
        await self.answer(self.ask("GET", f"{SUBMISSION}/choices"))


class RunHandler(_Handler):
    """``/runs/ID``: a run, and its end."""

    async def get(self, id: str) -> None:
        await self.answer(self.ask("GET", f"{RUNS}/{id}"))

    async def delete(self, id: str) -> None:
        await self.answer(self.ask("DELETE", f"{RUNS}/{id}"))


class PointsHandler(_Handler):
    """``/runs/ID/points``: the points of a run."""

    async def get(self, id: str) -> None:
        asked = {name: self.get_query_argument(name, "") for name in _OF_POINTS}
        query = urlencode({name: value for name, value in asked.items() if value})
        await self.answer(self.ask("GET", f"{RUNS}/{id}/points" + (f"?{query}" if query else "")))


class SchedulesHandler(_Handler):
    """``/runs/schedules``: the user's schedules, and a new one."""

    async def get(self) -> None:
        await self.answer(self.ask("GET", SCHEDULES))

    async def post(self) -> None:
        await self.answer_body(lambda body: self.ask("POST", SCHEDULES, body))


class ScheduleHandler(_Handler):
    """``/runs/schedules/ID``: the end of a schedule."""

    async def delete(self, id: str) -> None:
        await self.answer(self.ask("DELETE", f"{SCHEDULES}/{id}"))


class AgainHandler(_Handler):
    """``/runs/ID/again``, ``/runs/ID/repetitions``: a run once more."""

    async def post(self, id: str, how: str) -> None:
        # What the portal takes for a repetition is the run alone.
        await self.answer_body(
            lambda body: self.ask("POST", f"{RUNS}/{id}/{how}", *([body] if how == "again" else []))
        )


def routes(ask: Ask) -> list[Any]:
    """Return the routes. ``ask`` sends a method, a path and a body to the service."""
    arguments = {"ask": ask}
    return [
        ("/runs", RunsHandler, arguments),
        ("/runs/choices", ChoicesHandler, arguments),
        ("/runs/schedules", SchedulesHandler, arguments),
        (f"/runs/schedules/({ID})", ScheduleHandler, arguments),
        (f"/runs/({ID})", RunHandler, arguments),
        (f"/runs/({ID})/points", PointsHandler, arguments),
        (f"/runs/({ID})/(again|repetitions)", AgainHandler, arguments),
    ]
