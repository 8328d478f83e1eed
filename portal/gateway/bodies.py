"""Bodies of requests: kept while they are small, so that a request can go to another replica, and
passed on as they come if they are large."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from .errors import Refused

KEPT = 1024 * 1024  # bytes
_PATIENCE = 30.0  # seconds for the kept part, and for each further one of this size


class Body:
    """Body of one request, at most ``most`` bytes. No replica is taken before `read_beginning`."""

    def __init__(self, request: web.BaseRequest, most: int) -> None:
        self._request, self._most, self._size = request, most, 0
        self.length = request.content_length  # None: chunked, or there is none
        self.kept = b""
        self.complete = not request.can_read_body
        self.refused: Refused | None = None  # while it was passed on
        self._passed_on = False
        if (self.length or 0) > most:
            raise self._too_large()

    @property
    def repeatable(self) -> bool:
        """True if it can be sent again."""
        return self.complete or not self._passed_on

    async def read_beginning(self) -> None:
        """Read the part that is kept. Raises Refused if the caller sends too slowly or too
        much."""
        if self.complete:
            return
        if self._request.headers.get("Expect", "").lower() == "100-continue":
            await self._request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._request.writer.output_size = 0  # no part of the answer
        kept = bytearray()
        async for part in self._parts(KEPT):
            kept += part
        self.kept = bytes(kept)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield all of a body that is not complete."""
        self._passed_on = True
        yield self.kept
        try:
            while not self.complete:
                async for part in self._parts(KEPT):
                    yield part
        except Refused as refused:
            self.refused = refused
            raise

    async def _parts(self, size: int) -> AsyncIterator[bytes]:
        """Yield about ``size`` bytes. A caller that sends them too slowly is refused: trickling
        would hold a replica."""
        read = 0
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while read < size:
            try:
                async with asyncio.timeout_at(deadline):
                    part = await self._request.content.readany()
            except TimeoutError:
                raise Refused(408, "The request's body came too slowly.") from None
            except (RequestPayloadError, web.HTTPException, ValueError):
                raise Refused(400, "The request's body is malformed.") from None
            if not part:
                if self._request.content.at_eof():
                    self.complete = True
                    return
                continue
            read += len(part)
            self._size += len(part)
            if self._size > self._most:
                raise self._too_large()
            yield part

    def _too_large(self) -> Refused:
        return Refused(413, f"The body must be at most {self._most} bytes for this model.")
