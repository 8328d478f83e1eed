"""Requests of this account's programs to the session's broker, whose answers are JSON objects."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any, Callable

from tornado.web import HTTPError, RequestHandler

from ..service import ServiceError

Ask = Callable[..., Awaitable[dict[str, Any]]]
"""Sends a method, a path and a body to the service."""


class BrokerHandler(RequestHandler):
    """Base class of the broker's handlers."""

    async def answer(self, asked: Awaitable[dict[str, Any]]) -> None:
        """Send the portal's answer, or its error with the sentence."""
        try:
            result = await asked
        except ServiceError as error:
            self.set_status(error.status)
            result = {"message": str(error), **({"field": error.field} if error.field else {})}
            if error.away:
                result["away"] = True
        self.finish(json.dumps(result))

    async def answer_body(self, ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
        """Pass the request's JSON object to ``ask``, and send its answer; refuse anything else."""
        try:
            body = json.loads(self.request.body)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            await self.answer(ask(body))
            return
        self.set_status(400)
        self.finish(json.dumps({"message": "The body must be a JSON object."}))


class PassingHandler(BrokerHandler):
    """Base class of handlers that pass requests on to the service. ``methods``: those of its path,
    separated by spaces."""

    def initialize(self, ask: Ask, methods: str) -> None:
        self.ask, self.methods = ask, methods.split()

    def prepare(self) -> None:
        if self.request.method not in self.methods:
            raise HTTPError(405)
