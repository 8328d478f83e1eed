"""Answers of a registry about an image: manifests and configurations, as OCI and Docker write them
(https://github.com/opencontainers/image-spec)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from portal.errors import InvalidRequest

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LISTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class Manifest:
    """Manifest or list of manifests. ``data``: its bytes. Raises InvalidRequest (``source``) if it
    cannot be built from."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._values = _object(data, name)
        if self._values.get("schemaVersion") != 2:
            raise InvalidRequest(
                f"{name} is in Docker's image format from before 2016, which has no digest. "
                "Push it again with a newer Docker.",
                "source",
            )

    @property
    def is_list(self) -> bool:
        """Return True if it names one manifest for each architecture."""
        return self._values.get("mediaType") in _LISTS or "manifests" in self._values

    def digest_for(self, architecture: str) -> str:
        """Return the digest, in a list, of the image for ``architecture`` on Linux.

        Raises InvalidRequest, with the architectures that there are.
        """
        available = []
        for entry in _list(self._values.get("manifests")):
            platform = entry.get("platform")
            if not isinstance(platform, dict) or platform.get("os", "linux") != "linux":
                continue
            digest = str(entry.get("digest", ""))
            available.append(str(platform.get("architecture", "")))
            if available[-1] == architecture and _DIGEST.fullmatch(digest):
                return digest
        raise other_architecture(self.name, architecture, available)

    @property
    def size(self) -> int:
        """Size of an image: the bytes to be pulled."""
        parts = [*_list(self._values.get("layers")), self._values.get("config")]
        sizes = [part.get("size") for part in parts if isinstance(part, dict)]
        return sum(size for size in sizes if isinstance(size, int) and size > 0)


def configuration(data: bytes, name: str) -> tuple[str, str]:
    """Return the architecture and the creation time ("" if not given) of an image."""
    body = _object(data, name)
    created = body.get("created")
    return str(body.get("architecture", ""))[:40], created[:40] if isinstance(created, str) else ""


def other_architecture(name: str, architecture: str, available: list[str]) -> InvalidRequest:
    """Return the error for an image that does not run on this site's nodes."""
    known = ", ".join(
        sorted({arch for arch in available if re.fullmatch(r"[a-z0-9_]{1,20}", arch)})
    )
    return InvalidRequest(
        f"{name} is built for {known or 'another system'}, but this site's nodes are "
        f"{architecture}. Choose a tag for {architecture}.",
        "source",
    )


def _object(data: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(f"The registry's answer about {name} is not JSON.", "source")
    return value


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
