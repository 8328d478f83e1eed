"""Static files of the session's server: compressed, and kept by browsers for as long as they are
the same.

jupyter_server sends them as they are, 5 MB for JupyterLab's page, and lets a browser ask again for
files of extensions whose names hold a hash. Its handler is replaced by `StaticFiles` in all of the
server's routes.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import FileFindHandler
from tornado.web import GZipContentEncoding

from .compression import (
    Original,
    Store,
    accepted,
    compress,
    environment_store,
    original,
    personal_store,
)

_HASH = re.compile(r"(?:^|[./-])[0-9a-f]{16,64}\.\w+$", re.ASCII)
_VERSION = re.compile(rb"[0-9a-f]{16,128}")  # of ?v=, which tornado and webpack add
_FOREVER = "public, max-age=31536000, immutable"  # nobody has to log in for static files


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    stores = [environment_store(), personal_store(os.environ)]
    app.web_app.settings["portal_static_files"] = Copies([store for store in stores if store])
    base = app.web_app.settings["base_url"]
    answers = functools.partial(CompressedAnswers, prefix=f"{base}lab/api/")
    app.web_app.transforms.append(answers)
    # Extensions that are loaded later add routes too.
    app.io_loop.add_callback(replace_handlers, app.web_app.default_router.rules)


def replace_handlers(rules: Iterable[Any]) -> None:
    """Put `StaticFiles` into all rules of tornado's router that have jupyter_server's handler."""
    for rule in rules:
        if rule.target is FileFindHandler:
            rule.target = StaticFiles
            if hasattr(rule, "handler_class"):  # URLSpec's other name for it
                rule.handler_class = StaticFiles
        else:
            replace_handlers(getattr(rule.target, "rules", ()))


class Copies:
    """Compressed copies of files, in the first of ``stores`` that has them, or made now and kept in
    the last."""

    def __init__(self, stores: list[Store]) -> None:
        self._stores = stores
        self._keep = True

    def get(self, file: Original, coding: str) -> bytes:
        """Return the copy of ``file`` in ``coding``. Reads, computes and writes for some
        milliseconds. Raises OSError if the file is gone."""
        for store in self._stores:
            if (copy := store.read(file, coding)) is not None:
                return copy
        copy = compress(Path(file.path).read_bytes(), coding)
        if self._keep and self._stores:
            try:
                self._stores[-1].write(file, coding, copy)
            except OSError:  # a full or foreign home: made anew each time
                self._keep = False
        return copy


class StaticFiles(FileFindHandler):
    """Handler of static files, with compressed copies for those whose name holds a hash."""

    _file: Original | None = None
    _copy: bytes | None = None
    _coding = ""

    @functools.wraps(FileFindHandler.get)  # with its mark that nobody has to log in
    async def get(self, path: str, include_body: bool = True) -> None:
        self.path = self.parse_url_path(path)
        place = self.get_absolute_path(self.root, self.path)  # type: ignore[arg-type]
        place = self.validate_absolute_path(self.root, place)  # type: ignore[arg-type]
        if place is None:
            return  # it was redirected
        headers = self.request.headers
        coding = next(iter(accepted(headers.get("Accept-Encoding", ""))), "")
        # A part is one of the file as it is; and where a browser asks whether its own is still the
        # same, it mostly is.
        whole = not {"Range", "If-None-Match", "If-Modified-Since"} & set(headers)
        try:
            self._file = original(place)
            if self._file and coding and whole:
                copies = self.settings["portal_static_files"]
                # In a thread: it may be made first, and homes hang.
                self._copy = await asyncio.to_thread(copies.get, self._file, coding)
                self._coding = coding
        except OSError:
            pass  # the file is sent as it is
        await super().get(path, include_body)

    def set_headers(self) -> None:
        """Add the coding to tornado's headers, and how long the answer may be kept."""
        super().set_headers()
        if self._file:
            self.set_header("Vary", "Accept-Encoding")
        if self._copy is not None:
            self.set_header("Content-Encoding", self._coding)
        if any(self.request.path.startswith(path) for path in self.no_cache_paths):
            return
        version = self.request.query_arguments.get("v", [b""])[-1]
        if _HASH.search(self.request.path) or _VERSION.fullmatch(version):
            self.set_header("Cache-Control", _FOREVER)
        else:
            self.set_header("Cache-Control", "no-cache")
            self.clear_header("Expires")

    def compute_etag(self) -> str | None:
        """Return one for all codings of a file, or jupyter_server's for a file without copies."""
        if self._file is None:
            return super().compute_etag()
        return f'W/"{self._file.modified:x}-{self._file.size:x}"'

    def get_content_size(self) -> int:
        """Return the number of bytes to send."""
        return super().get_content_size() if self._copy is None else len(self._copy)

    def get_content(  # type: ignore[override]
        self, abspath: str, start: int | None = None, end: int | None = None
    ) -> bytes | Iterator[bytes]:
        """Return the bytes to send; only a file as it is can be asked for from a part on."""
        return super().get_content(abspath, start, end) if self._copy is None else self._copy


class CompressedAnswers(GZipContentEncoding):
    """Compression of the settings, translations and themes that JupyterLab's page loads.

    Not of the page, which holds a token and words of its address, and not of the whole API: where
    somebody else can choose a part of an answer, its size tells of what is secret in it (BREACH).
    """

    def __init__(self, request: Any, prefix: str) -> None:
        super().__init__(request)
        self._ours = request.path.startswith(prefix)
        self._gzipping = self._gzipping and self._ours

    def transform_first_chunk(
        self, status_code: int, headers: Any, chunk: bytes, finishing: bool
    ) -> tuple[int, Any, bytes]:
        """Compress an answer below the prefix; leave all others as they are."""
        if not self._ours or status_code != 200:
            self._gzipping = False
            return status_code, headers, chunk
        return super().transform_first_chunk(status_code, headers, chunk, finishing)
