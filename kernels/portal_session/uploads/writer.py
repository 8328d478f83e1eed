"""Writer of the body of one request to an upload: it writes a piece while the next one arrives."""

from __future__ import annotations

import asyncio

from ..situation import in_thread
from . import UploadError
from .store import Upload, Uploads

AT_ONCE = 2 * 1024 * 1024  # bytes that are written at once; an upload needs twice that memory


class Writer:
    """Writer from ``offset`` on. ``problem``: why it does not go on, or None."""

    def __init__(self, uploads: Uploads, upload: Upload, offset: int) -> None:
        self.upload, self.offset = upload, offset
        self.problem: UploadError | None = None
        self._uploads = uploads
        self._waiting: list[bytes] = []
        self._collected = 0  # bytes that wait
        self._writing: asyncio.Future[None] | None = None
        self._lock = asyncio.Lock()

    @property
    def busy(self) -> bool:
        """Return True while a piece is being written."""
        return self._writing is not None and not self._writing.done()

    async def take(self, chunk: bytes) -> None:
        """Take the next bytes of the body; return once the memory allows more."""
        if self.problem is not None:
            return
        if self.offset + self._collected + len(chunk) > self.upload.length:
            self.problem = UploadError("The body is longer than the rest of the upload.", 413)
            return
        self._waiting.append(chunk)
        self._collected += len(chunk)
        if self._collected >= AT_ONCE:
            async with self._lock:
                await self._written()
                self._begin()

    async def finish(self, problem: UploadError | None = None) -> None:
        """Write what has arrived. ``problem``: why nothing else is taken."""
        self.problem = self.problem or problem
        async with self._lock:
            await self._written()
            self._begin()
            await self._written()

    def _begin(self) -> None:
        if self._collected:
            data, offset = b"".join(self._waiting), self.offset
            self._waiting, self._collected, self.offset = [], 0, offset + len(data)
            append = in_thread(self._uploads.append, self.upload, offset, data)
            self._writing = asyncio.ensure_future(append)

    async def _written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                await writing
            except UploadError as error:
                self.problem = error
                self._waiting, self._collected = [], 0
