"""Refusal of requests that are too large: with a sentence, and without holding them in memory."""

from __future__ import annotations

from typing import Any

from tornado.web import stream_request_body

from portal.errors import InvalidRequest
from portal.web.refusal import DRAINED

from .base import APIHandler


class TooLarge(InvalidRequest):
    """Body larger than the service reads (`max_body` of the service)."""

    code = "too_large"
    status = 413


@stream_request_body
class LargeHandler(APIHandler):
    """Handler that reads and discards the body, so that the client gets to read the answer.

    Tornado's own answer is a bare status line, which a proxy turns into an error of its own.
    """

    def initialize(self, limit: int) -> None:
        self.limit = limit

    async def prepare(self) -> None:
        self.request.connection.set_max_body_size(DRAINED)  # type: ignore[union-attr]

    def check_xsrf_cookie(self) -> None:
        """Skip the check: the request has no effect."""

    def data_received(self, chunk: bytes) -> None:
        pass

    async def post(self, *args: str, **kwargs: Any) -> None:
        raise TooLarge(f"The request is too large. The limit is {self.limit} bytes.")

    get = head = put = patch = delete = options = post
