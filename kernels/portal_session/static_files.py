"""Static files of the session's server: compressed, and kept by browsers for as long as they are
the same.

jupyter_server sends them as they are, 5 MB for JupyterLab's page, and lets a browser ask again for
files of extensions whose names hold a hash. Its handler is replaced by `StaticFiles` in all of the
server's routes; tornado compresses what that sends.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from jupyter_server.base.handlers import FileFindHandler
from tornado.web import GZipContentEncoding

_HASH = re.compile(r"(?:^|[./-])[0-9a-f]{16,64}\.\w+$", re.ASCII)
_VERSION = re.compile(rb"[0-9a-f]{16,128}")  # of ?v=, which tornado and webpack add
_FOREVER = "public, max-age=31536000, immutable"  # nobody has to log in for static files


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
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


class StaticFiles(FileFindHandler):
    """Handler of static files, which CompressedAnswers compresses."""

    def set_headers(self) -> None:
        """Add how long the answer may be kept to tornado's headers."""
        super().set_headers()
        self.request.portal_static = True
        if any(self.request.path.startswith(path) for path in self.no_cache_paths):
            return
        if self._named_by_hash:
            self.set_header("Cache-Control", _FOREVER)
        else:
            self.set_header("Cache-Control", "no-cache")
            self.clear_header("Expires")

    @property
    def _named_by_hash(self) -> bool:
        version = self.request.query_arguments.get("v", [b""])[-1]
        return bool(_HASH.search(self.request.path) or _VERSION.fullmatch(version))

    def compute_etag(self) -> str | None:
        """Return one for all codings of a file; if its name holds a hash, without reading it."""
        if self.modified is None or not self._named_by_hash:
            return super().compute_etag()
        return f'W/"{int(self.modified.timestamp()):x}-{self.get_content_size():x}"'


class CompressedAnswers(GZipContentEncoding):
    """Compression of static files, and of the settings, translations and themes that JupyterLab's
    page loads.

    Not of the page, which holds a token and words of its address, and not of the whole API: where
    somebody else can choose a part of an answer, its size tells of what is secret in it (BREACH).
    """

    def __init__(self, request: Any, prefix: str) -> None:
        super().__init__(request)
        self._request, self._prefix = request, prefix

    def transform_first_chunk(
        self, status_code: int, headers: Any, chunk: bytes, finishing: bool
    ) -> tuple[int, Any, bytes]:
        """Compress a static file or an answer below the prefix; leave all others as they are."""
        static = getattr(self._request, "portal_static", False)
        if status_code == 200 and (static or self._request.path.startswith(self._prefix)):
            return super().transform_first_chunk(status_code, headers, chunk, finishing)
        self._gzipping = False  # a part, too, is one of the file as it is
        if static:
            headers["Vary"] = "Accept-Encoding"
        return status_code, headers, chunk
