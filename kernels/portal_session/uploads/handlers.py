"""Server extension for uploads at ``portal/uploads``, by tus.io/protocols/resumable-upload 1.0.0,
with its extensions creation and termination."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any, Callable, TypeVar

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated, stream_request_body

from ..local_api import LocalHandler, Refused
from ..situation import in_thread
from . import UploadError
from .store import Uploads
from .writer import Writer

VERSION = "1.0.0"
LONGEST = 1 << 44  # bytes of an upload
AT_A_TIME = 4  # uploads that are written
SILENCE = 60.0  # seconds without a byte after which a connection is closed
# Bytes of a refused body that are read, so that the client reads the refusal: of a connection that
# is closed before, it sees no answer. The page's client sends not more at once.
DISCARDED = 64 * 1024 * 1024
_TAKEN = UploadError("Another request goes on with this upload.", 409)
_T = TypeVar("_T")


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    project = os.environ.get("PORTAL_PROJECT_FOLDER")
    place, root = Path(jupyter_data_dir()) / "portal-uploads", Path(app.root_dir)
    uploads = Uploads(place, root, Path(project) if project else None)
    given: dict[str, Any] = {"uploads": uploads, "requests": {}}
    path = url_path_join(app.web_app.settings["base_url"], "portal", "uploads")
    routes = [(path, UploadsHandler, given), (f"{path}/([0-9a-f]{{32}})", UploadHandler, given)]
    app.web_app.add_handlers(".*$", routes)


class TusHandler(LocalHandler):
    """Base class of both handlers. ``requests``: the one that writes each upload."""

    def initialize(self, uploads: Uploads, requests: dict[str, UploadHandler]) -> None:
        self.uploads, self.requests = uploads, requests

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Tus-Resumable", VERSION)

    @authenticated
    @authorized
    async def check(self) -> None:
        """Raise an error for anyone but the owner."""
        self.check_owner()

    def check_version(self) -> None:
        """Raise Refused for other versions of the protocol."""
        if self.request.headers.get("Tus-Resumable") != VERSION:
            self.set_header("Tus-Version", VERSION)
            raise Refused(412, f"Uploads are by the protocol of tus.io, version {VERSION}.")

    def number(self, name: str) -> int:
        """Return a header's number. Raises Refused."""
        text = self.request.headers.get(name, "")
        if not text.isascii() or not text.isdigit() or int(text[:20]) > LONGEST:
            raise Refused(400, f"The header {name} must be a number of bytes, at most {LONGEST}.")
        return int(text)

    async def result(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return what ``function`` returns in a thread. Raises Refused."""
        try:
            return await in_thread(function, *arguments)
        except UploadError as error:
            raise Refused(error.status, str(error)) from None

    async def end_other(self, id: str) -> None:
        """End the request that writes this upload, once it has written what has arrived: its
        connection may be cut, and look open for long."""
        while id in self.requests:
            await self.requests[id].give_up()

    async def options(self, *_: str) -> None:
        self.set_header("Tus-Version", VERSION)
        self.set_header("Tus-Extension", "creation,termination")
        self.set_header("Tus-Max-Size", str(LONGEST))
        self.set_status(204)


class UploadsHandler(TusHandler):
    """``portal/uploads``: the unfinished uploads, and a new one."""

    async def get(self) -> None:
        await self.check()
        items = await in_thread(self.uploads.unfinished)
        project = str(self.uploads.project or "")
        self.finish(json.dumps({"items": items, "project": project}))

    async def post(self) -> None:
        await self.check()
        self.check_version()
        values = self._metadata()
        names = values.get("folder", ""), values.get("filename", "")
        length = self.number("Upload-Length")
        more = values.get("replace") == "yes", values.get("modified", "")
        upload = await self.result(self.uploads.begin, *names, length, *more)
        self.set_header("Location", f"{self.request.path}/{upload.id}")
        self.set_status(201)

    def _metadata(self) -> dict[str, str]:
        """Return the header's pairs of a key and base64. Raises Refused."""
        pairs = self.request.headers.get("Upload-Metadata", "").split(",")
        try:
            words = [pair.split() for pair in pairs if pair.strip()]
            return {
                key: base64.b64decode("".join(rest), validate=True).decode() for key, *rest in words
            }
        except ValueError:
            raise Refused(400, "The header Upload-Metadata must have keys and base64.") from None


@stream_request_body
class UploadHandler(TusHandler):
    """``portal/uploads/ID``: how far an upload is, more of it, and its end."""

    writer: Writer | None = None
    refusal: HTTPError | None = None  # is answered once the body is read
    completion: asyncio.Future[None] | None = None
    ending: asyncio.Future[None] | None = None  # a reference to the task
    heard_at = 0.0  # time of the last byte, by the event loop's clock

    async def prepare(self) -> None:
        """Find out where the body goes before it arrives."""
        size = self.request.headers.get("Content-Length", "")
        try:
            await super().prepare()
            if self.request.method == "PATCH":
                await self._begin(self.path_args[0])
        except HTTPError as refusal:
            if self.request.method != "PATCH" or not size.isdigit() or int(size) > DISCARDED:
                raise
            self.refusal = refusal

    async def _begin(self, id: str) -> None:
        """Make the writer of the body. Raises HTTPError."""
        await self.check()
        self.check_version()
        if self.request.headers.get("Content-Type") != "application/offset+octet-stream":
            raise Refused(415, "The body must be application/offset+octet-stream.")
        upload = await self.result(self.uploads.find, id)
        await self.end_other(id)
        if len(self.requests) >= AT_A_TIME:
            raise Refused(503, f"{AT_A_TIME} uploads are being written. Wait until one is whole.")
        self.requests[id] = self
        offset = await self.result(self.uploads.offset, upload)
        if self.number("Upload-Offset") != offset:
            raise Refused(409, f"The upload has {offset} bytes: go on from there.")
        left = upload.length - offset
        self.request.connection.set_max_body_size(max(left, DISCARDED))  # type: ignore[union-attr]
        self.writer = Writer(self.uploads, upload, offset)
        self.heard_at = asyncio.get_running_loop().time()
        self._look_later()

    async def data_received(self, chunk: bytes) -> None:
        """Take a piece of the body."""
        if self.writer is not None:
            await self.writer.take(chunk)
            self.heard_at = asyncio.get_running_loop().time()

    async def give_up(self) -> None:
        """Write what has arrived, and close the connection; or let the upload become whole."""
        if self.completion is not None:
            await asyncio.wait({self.completion})
            return self._forget()
        if self.writer is not None:
            await self.writer.finish(_TAKEN)
        self._forget()
        if not self._finished:
            self.request.connection.close()  # type: ignore[union-attr]

    async def patch(self, _id: str) -> None:
        if self.refusal is not None:
            raise self.refusal
        writer = self.writer
        assert writer is not None
        await writer.finish()
        if writer.problem is not None:
            raise Refused(writer.problem.status, str(writer.problem))
        if writer.offset == writer.upload.length:
            complete = self.result(self.uploads.complete, writer.upload)
            self.completion = asyncio.ensure_future(complete)
            await self.completion
        else:
            await in_thread(self.uploads.keep, writer.upload)
        self.set_header("Upload-Offset", str(writer.offset))
        self.set_status(204)

    async def head(self, id: str) -> None:
        await self.check()
        self.check_version()
        upload = await self.result(self.uploads.find, id)
        await self.end_other(id)
        offset = await self.result(self.uploads.offset, upload)
        if offset == upload.length:  # its name was taken, or the server ended just then
            await self.result(self.uploads.complete, upload)
        self.set_header("Upload-Offset", str(offset))
        self.set_header("Upload-Length", str(upload.length))
        self.set_status(200)

    async def delete(self, id: str) -> None:
        await self.check()
        upload = await self.result(self.uploads.find, id)
        await self.end_other(id)
        await self.result(self.uploads.remove, upload)
        self.set_status(204)

    def on_finish(self) -> None:
        self._forget()
        super().on_finish()

    def on_connection_close(self) -> None:
        # What has arrived is kept, whatever little it is: a bad network cuts often.
        self.ending = asyncio.ensure_future(self.give_up())
        super().on_connection_close()

    def _look_later(self) -> None:
        """End the request if nothing arrives for SILENCE."""
        loop = asyncio.get_running_loop()
        writer = self.writer
        if writer is None or self.requests.get(writer.upload.id) is not self:
            return
        if loop.time() - self.heard_at > SILENCE and not writer.busy:
            self.ending = asyncio.ensure_future(self.give_up())
        else:
            loop.call_later(SILENCE / 4, self._look_later)

    def _forget(self) -> None:
        if self.path_args and self.requests.get(self.path_args[0]) is self:
            del self.requests[self.path_args[0]]
