"""Base class of uploads: the body goes to the disk as it arrives, and never into memory."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

from portal.errors import PortalError, TooManyRequests, Unavailable
from portal.web.refusal import DRAINED, length_of

from .action import Action
from .body_limit import TooLarge

FILE = "application/octet-stream"
_LONGEST = 600.0  # seconds that a body may take
_AT_ONCE = 4  # files of one person: all lie on the disk while they come


class Upload(Action):
    """Base class of endpoints whose ``POST`` and ``PUT`` take a file of up to ``most`` bytes.

    ``on_…`` finds it at ``file`` while it runs. A refusal is sent after the file has arrived: a
    client that is still writing reads nothing.
    """

    takes_files: ClassVar[bool] = True
    _stream_request_body = True  # tornado.web.stream_request_body

    _coming: ClassVar[WeakSet[Upload]] = WeakSet()

    _refusal: PortalError | None = None
    _spool: Any = None
    _received = 0

    @property
    def most(self) -> int:
        """Largest file, in bytes."""
        raise NotImplementedError

    @property
    def place(self) -> Path:
        """Folder of the service's own for incoming files."""
        raise NotImplementedError

    @property
    def file(self) -> Path:
        """Path of the file that arrived."""
        return Path(self._spool.name)

    @property
    def empty(self) -> bool:
        """Return True if nothing arrived."""
        return not self._received

    async def prepare(self) -> None:
        if self.request.method not in ("POST", "PUT"):
            await super().prepare()
            return
        connection: Any = self.request.connection
        connection.set_max_body_size(self.most + DRAINED)
        connection.set_body_timeout(_LONGEST)
        try:
            await super().prepare()
            if length_of(self.request) > self.most:
                raise self._too_large()
            own_uploads = sum(upload.person.name == self.person.name for upload in self._coming)
            if own_uploads >= _AT_ONCE:
                raise TooManyRequests(
                    f"You are already uploading {own_uploads} files. Wait until they are complete."
                )
            self._coming.add(self)
            self._spool = await asyncio.to_thread(self._new_file)
        except PortalError as error:
            self._refusal = error

    async def data_received(self, chunk: bytes) -> None:
        """Spool a chunk; tornado calls this also for a body that no method takes."""
        self._received += len(chunk)
        if self._refusal is None and self._received > self.most:
            self._refusal = self._too_large()
        if self._refusal is None and self._spool is not None:
            try:
                await asyncio.to_thread(self._spool.write, chunk)
            except OSError as error:
                self._refusal = _no_room(error)

    async def _call(self, name: str, /, **parameters: str) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._spool is not None:
            await asyncio.to_thread(self._spool.flush)
        await super()._call(name, **parameters)

    def on_finish(self) -> None:
        super().on_finish()
        self._forget()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._forget()

    def _forget(self) -> None:
        self._coming.discard(self)
        if self._spool is not None:
            self._spool.close()  # and it is gone

    def _new_file(self) -> Any:
        try:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            return tempfile.NamedTemporaryFile(dir=self.place, prefix="file-")
        except OSError as error:
            raise _no_room(error) from None

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The file is too large. The limit is {self.most // 1024 // 1024} MB.")


def _no_room(error: OSError) -> Unavailable:
    return Unavailable(f"The portal cannot store the file: {error.strerror}.")
