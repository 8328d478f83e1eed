"""Scripts and styles of the pages: ``static/`` of the portal, public and cached for long.

Their address holds a hash of all of them, ``/services/portal/static/HASH/js/cluster.js``, so that
a module and what it imports are always of one version, and a browser never has to ask again.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import posixpath
import re
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from portal.errors import NotFound

from ..base.base import SafeHandler

_LOOK = 1.0  # seconds
_KEEP = "public, max-age=31536000, immutable"
_TYPEFACE = "public, max-age=604800"  # the Hub's pages do not know the hash: both have one address
_IMPORT = re.compile(rb'^(?:import|export) [^;]*?from "(\.{1,2}/[^"]+)";', re.MULTILINE)
_TEXT = (".js", ".css", ".svg", ".txt", ".json")


@dataclass(frozen=True)
class Asset:
    """File in memory; ``gzipped`` is made once, when the first browser asks for it."""

    content: bytes
    type: str

    @cached_property
    def gzipped(self) -> bytes:
        return gzip.compress(self.content, mtime=0)


class Assets:
    """All files below ``root``.

    A file that changes on disk is read again, for those who write pages; each page asks several
    times, so the tree is walked once a second at most.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seen: dict[str, tuple[int, int]] = {}
        self._files: dict[str, Asset] = {}
        self._version = ""
        self._look_at = 0.0

    @property
    def version(self) -> str:
        """Hash in the address."""
        self._look()
        return self._version

    def get(self, path: str) -> Asset | None:
        """Return the file with this path below ``root``; None if there is none."""
        if path not in self._files:
            self._look()
        return self._files.get(path)

    def modules(self, path: str) -> list[str]:
        """Return the paths of a script and of everything that it imports.

        A page can then ask for all of them at once, not one after the other.
        """
        paths = [path]
        for name in paths:
            asset = self.get(name)
            for other in _IMPORT.findall(asset.content) if asset else ():
                inner = posixpath.normpath(f"{posixpath.dirname(name)}/{other.decode()}")
                if inner not in paths:
                    paths.append(inner)
        return paths

    def _look(self) -> None:
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK
        seen = {}
        for path in self.root.rglob("*"):
            name = path.relative_to(self.root).as_posix()
            if path.is_file() and "/." not in f"/{name}":
                status = path.stat()
                seen[name] = (status.st_mtime_ns, status.st_size)
        if seen == self._seen:
            return
        total = hashlib.sha256()
        files = {}
        for name in sorted(seen):
            content = (self.root / name).read_bytes()
            total.update(f"{name}\0{len(content)}\0".encode() + content)
            files[name] = Asset(content, _type_of(name))
        self._files, self._seen, self._version = files, seen, total.hexdigest()[:16]


class AssetHandler(SafeHandler):
    """``GET static/HASH/PATH``.

    With the hash of another version, e.g. from a page that was open during an upgrade, the present
    file is sent, and not cached.
    """

    async def get(self, version: str, path: str) -> None:
        assets: Assets = self.settings["pages"].assets
        asset = assets.get(path)
        if asset is None:
            raise NotFound("There is nothing at this address.")
        self.set_header("Content-Type", asset.type)
        kept = _KEEP if version == assets.version else "no-cache"
        self.set_header("Cache-Control", _TYPEFACE if path.endswith(".woff2") else kept)
        self.set_header("Vary", "Accept-Encoding")
        content = asset.content
        if path.endswith(_TEXT) and "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            content = asset.gzipped
        self.finish(content)

    head = get


def _type_of(name: str) -> str:
    if name.endswith(".js"):
        return "text/javascript; charset=utf-8"
    if name.endswith(".css"):
        return "text/css; charset=utf-8"
    return mimetypes.guess_type(name)[0] or "text/plain; charset=utf-8"
