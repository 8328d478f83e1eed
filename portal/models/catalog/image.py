"""Sources of container images, and a registry's data about an image."""

from __future__ import annotations

import re
from enum import StrEnum

from .. import Frozen

DEFAULT_REGISTRY = "docker.io"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[0-9]{1,5})?"
_REPOSITORY = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_DIGEST = r"sha256:[0-9a-f]{64}"
# The grammar of https://github.com/distribution/reference, with Apptainer's scheme before it.
_OCI = re.compile(
    rf"^docker://(?:(?P<host>{_HOST})/)?(?P<repository>{_REPOSITORY})"
    rf"(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?$"
)
_PATH = re.compile(r"^/[^\x00-\x1f\x7f,:]{1,1023}$")


class SourceKind(StrEnum):
    """Kind of a source that an image is made from."""

    OCI = "oci"
    SIF = "sif"
    DEFINITION = "definition"


class Source(Frozen):
    """Source of an image: ``docker://host/repository:tag`` in its parts, or the path of a SIF or
    definition file."""

    kind: SourceKind
    host: str = ""
    repository: str = ""
    tag: str = ""
    digest: str = ""
    path: str = ""

    def __str__(self) -> str:
        """Return the source in Apptainer's notation."""
        if self.kind is not SourceKind.OCI:
            return self.path
        tag = f":{self.tag}" if self.tag and not self.digest else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"docker://{self.host}/{self.repository}{tag}{digest}"

    def pinned(self, digest: str) -> Source:
        """Return the source of the same image, by digest instead of tag."""
        return self.model_copy(update={"digest": digest})


class ResolvedImage(Frozen):
    """Image behind a tag, as its registry describes it. ``size``: bytes to pull; ``created``: as
    stated in the image, may be empty. ``architecture`` is OCI's name ("amd64")."""

    digest: str
    architecture: str
    size: int = 0
    created: str = ""


def parse_source(text: str) -> Source:
    """Parse a source as an admin pasted it. Raises ValueError with a sentence that says how to
    write it."""
    text = text.strip()
    if text.startswith("/"):
        if not _PATH.match(text) or ".." in text.split("/"):
            raise ValueError(
                f"'{text[:80]}' is not a valid path: it may not contain '..', ',' or ':'"
            )
        kind = SourceKind.DEFINITION if text.endswith(".def") else SourceKind.SIF
        return Source(kind=kind, path=text)
    match = _OCI.match(text)
    if not match:
        raise ValueError(
            f"'{text[:80]}' is neither docker://REGISTRY/REPOSITORY:TAG nor an absolute path of a "
            "SIF file (.sif) or a definition file (.def)"
        )
    host, repository = (match["host"] or "").lower(), match["repository"]
    # A first part without dot, port or "localhost" belongs to the repository (Docker's rule).
    if host and not re.search(r"[.:]|^localhost$", host):
        host, repository = "", f"{host}/{repository}"
    if not host:
        host = DEFAULT_REGISTRY
        repository = repository if "/" in repository else f"library/{repository}"
    tag, digest = match["tag"] or "", match["digest"] or ""
    if not tag and not digest:
        tag = "latest"
    return Source(kind=SourceKind.OCI, host=host, repository=repository, tag=tag, digest=digest)
