"""Definition file of what the portal adds to an image, and the name of the result.

The text is constant: variable parts come as build arguments that the portal made itself, and in
the environment of the one script, which nothing evaluates.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from portal.models.catalog.image import Source, SourceKind
from portal.session_packages import constraints, requirements

from ..outcome import WorkFailed

PREFIX = "/opt/data-scientist-portal"  # the portal's own virtual environment in every image
BASH_KERNEL = "bash_kernel>=0.9"
# Changes when `layers.py` adds something else from the same ingredients.
_EDITION = "1"

# Fast to make and fast to read; gzip, the default, takes four times as long.
SQUASHFS = "-comp zstd -Xcompression-level 3"

DEFINITION = """\
Bootstrap: localimage
From: {{ base }}

%setup
    set -e
    # This runs on the node: a link out of the image would lead to the node's own files.
    test -d "$APPTAINER_ROOTFS/opt" && test ! -L "$APPTAINER_ROOTFS/opt"
    test ! -e "$APPTAINER_ROOTFS/opt/data-scientist-portal"
    cp -a "$PORTAL_ADDED" "$APPTAINER_ROOTFS/opt/data-scientist-portal"

%labels
    data-scientist-portal.digest {{ digest }}
    data-scientist-portal.recipe {{ recipe }}
"""


def session_wheel(wheels: str) -> Path:
    """Return the newest wheel of portal-session in the folder. Raises WorkFailed without one."""
    candidates = sorted(
        Path(wheels).glob("portal_session-*.whl"), key=lambda wheel: wheel.stat().st_mtime
    )
    if not candidates:
        raise WorkFailed(
            f"There is no wheel of portal-session in '{wheels}' (c.Images.wheels). Build one: "
            "uv build --wheel kernels."
        )
    return candidates[-1]


def recipe_key(wheels: str) -> str:
    """Return ten hexadecimal digits that change when what is added to images does. ``wheels``: the
    folder of portal-session's wheel. Reads files. Raises WorkFailed."""
    wheel = session_wheel(wheels)
    pins = constraints()
    parts = [
        _EDITION,
        DEFINITION,
        SQUASHFS,
        BASH_KERNEL,
        *requirements(),
        pins.read_text() if pins else "",
        wheel.name,
    ]
    whole = hashlib.sha256("\0".join(parts).encode())
    whole.update(wheel.read_bytes())
    return whole.hexdigest()[:10]


def build_key(digest: str, recipe: str) -> str:
    """Return the key of a build: equal keys, equal images. ``digest`` as in "sha256:…"."""
    return f"{digest.removeprefix('sha256:')}-{recipe}"


def image_path(directory: str, digest: str, recipe: str) -> Path:
    """Return the path of the finished image."""
    return Path(directory) / f"{build_key(digest, recipe)}.sif"


def path_digest(source: Source) -> str:
    """Return the digest ("sha256:…") of a source that is a file: of a SIF's bytes, or of a
    definition's text and the files beside it that it copies. Reads the whole file: call it in a
    thread.

    Raises WorkFailed if it cannot be read.
    """
    from ..apptainer.definition_file import copied_files  # which knows how such a file is read

    path = Path(source.path)
    try:
        # Neither a pipe, which blocks, nor a device, which never ends, may hold up the thread.
        with open(path, "rb", opener=_at_once) as file:  # Path.open has no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise WorkFailed(f"'{path}' is not a file.")
            whole = hashlib.file_digest(file, "sha256")
        if source.kind is SourceKind.DEFINITION:
            for copied in copied_files(path):
                whole.update(f"\0{copied}\0".encode())
                with copied.open("rb") as file:
                    whole.update(hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise WorkFailed(f"'{path}' cannot be read: {error.strerror}.") from None
    return f"sha256:{whole.hexdigest()}"


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
