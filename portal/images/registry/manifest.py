"""What a registry answers about an image: manifests and configurations, as OCI and Docker write
them (https://github.com/opencontainers/image-spec)."""

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
    """One manifest or list of manifests. ``data``: its bytes. Raises InvalidRequest (``source``)
    when it is not one of those that can be built from."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._said = _object(data, name)
        if self._said.get("schemaVersion") != 2:
            raise InvalidRequest(
                f"{name} is in Docker's format of before 2016, which has no digest of its own: "
                "somebody has to push it again with a newer Docker.",
                "source",
            )

    @property
    def is_list(self) -> bool:
        """Whether it names one manifest for each architecture."""
        return self._said.get("mediaType") in _LISTS or "manifests" in self._said

    def digest_for(self, architecture: str) -> str:
        """Of a list: the digest of the image for ``architecture`` on Linux.

        Raises InvalidRequest, with the architectures that there are.
        """
        there = []
        for entry in _list(self._said.get("manifests")):
            platform = entry.get("platform")
            if not isinstance(platform, dict) or platform.get("os", "linux") != "linux":
                continue
            digest = str(entry.get("digest", ""))
            there.append(str(platform.get("architecture", "")))
            if there[-1] == architecture and _DIGEST.fullmatch(digest):
                return digest
        raise other_architecture(self.name, architecture, there)

    @property
    def size(self) -> int:
        """Of an image: the bytes to be pulled."""
        parts = [*_list(self._said.get("layers")), self._said.get("config")]
        sizes = [part.get("size") for part in parts if isinstance(part, dict)]
        return sum(size for size in sizes if isinstance(size, int) and size > 0)


def configuration(data: bytes, name: str) -> tuple[str, str]:
    """The architecture and the time of making ("" where it is not said) of an image."""
    said = _object(data, name)
    created = said.get("created")
    return str(said.get("architecture", ""))[:40], created[:40] if isinstance(created, str) else ""


def other_architecture(name: str, architecture: str, there: list[str]) -> InvalidRequest:
    """The complaint that an image does not run on this site's nodes."""
    known = ", ".join(sorted({one for one in there if re.fullmatch(r"[a-z0-9_]{1,20}", one)}))
    return InvalidRequest(
        f"{name} is for {known or 'another system'}, and this site's nodes are {architecture}: "
        "choose a tag that has it.",
        "source",
    )


def _object(data: bytes, name: str) -> dict[str, Any]:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise InvalidRequest(f"The registry's answer about {name} is not JSON.", "source")
    return said


def _list(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
