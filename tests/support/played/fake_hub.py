"""The Hub's API as the service calls it (portal/hubapi.py), without a Hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from portal.errors import Conflict, HubUnavailable, NotFound


class FakeHub:
    """Hub that grants requests for starts and stops of servers, and records them.

    Attributes:
        asked: all requests, those that it refused too: user, server, and the options of a start or
            the reason of a stop (for whom, if it has none).
        begun: the starts that it granted, in the same form.
        stopped: the stops that it granted, in the same form.
        granted: both in their order: "start" or "stop", user, server.
        admitted: those who are not asked at a session: user, server, visitor.
        running: state of each server that runs, by user and name.
        follows: False if it does not follow which run: each can be started and stopped at any time.
        refusal: error of starts whose options ``refuses`` accepts.
        lost: error of the next start, after it was granted.
        failure: error of stops.
        trouble: error of questions about servers.
        away: nothing is answered.
        strangers: users who have never logged in.
    """

    new_state = "ready"  # of a server that was started

    def __init__(
        self,
        *,
        running: Mapping[tuple[str, str], str] | None = None,
        refusal: BaseException | None = None,
        trouble: Exception | None = None,
        strangers: Iterable[str] = (),
    ) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.begun: list[tuple[str, str, Any]] = []
        self.stopped: list[tuple[str, str, Any]] = []
        self.granted: list[tuple[str, str, str]] = []
        self.admitted: list[tuple[str, str, str]] = []
        self.follows, self.running = running is not None, dict(running or {})
        self.refusal, self.trouble = refusal, trouble
        self.refuses: Callable[[Any], bool] = lambda options: True
        self.lost: BaseException | None = None
        self.failure: Exception | None = None
        self.away = False
        self.strangers = set(strangers)

    async def begin_server(self, user: str, server: str, options: Any) -> None:
        await asyncio.sleep(0)
        self.asked.append((user, server, options))
        self.answer()
        if self.refusal is not None and self.refuses(options):
            raise self.refusal
        if self.follows:
            if self.running.get((user, server)):
                raise Conflict("It is already running.")
            self.running[user, server] = self.new_state
        self.begun.append((user, server, options))
        self.granted.append(("start", user, server))
        if self.lost is not None:
            lost, self.lost = self.lost, None
            raise lost

    async def start_server(self, user: str, server: str, options: Any) -> None:
        await self.begin_server(user, server, options)

    async def stop_server(
        self, user: str, server: str, *, on_behalf_of: str = "", reason: Any = None
    ) -> None:
        request = (user, server, on_behalf_of if reason is None else reason)
        self.asked.append(request)
        self.answer()
        if self.failure is not None:
            raise self.failure
        if self.follows and self.running.pop((user, server), None) is None:
            raise NotFound("No such server is running.")
        self.stopped.append(request)
        self.granted.append(("stop", user, server))

    async def runs(self, user: str, server: str) -> bool:
        self._answer_question()
        return (user, server) in self.running

    async def server_state(self, user: str, server: str) -> str:
        self._answer_question()
        return self.running.get((user, server), "")

    async def admit(self, user: str, server: str, person: str) -> str:
        self.answer()
        self.admitted.append((user, server, person))
        return f"http://{user}.localhost/user/{user}/{server}/"

    async def may_log_in(self, user: str) -> bool:
        self.answer()
        return user not in self.strangers

    async def people(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        self.answer()
        return {name: {} for name in names if name not in self.strangers}

    def answer(self) -> None:
        """Raise HubUnavailable while it is away."""
        if self.away:
            raise HubUnavailable("The Hub does not answer.")

    def _answer_question(self) -> None:
        self.answer()
        if self.trouble is not None:
            raise self.trouble
