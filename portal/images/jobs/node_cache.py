"""Images unpacked on a node's own disk, from which sessions start faster than from the SIF.

A copy has the name of its image, which tells what is in it, and appears under that name only when
it is complete. It belongs to the account of the builds, and nobody else can write to it: a session
uses it only then (deploy/session.sh).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection
from pathlib import Path

from portal.models.catalog.image_job import Event, ImageJob

from .. import log_protocol
from ..apptainer import signing
from ..apptainer.apptainer import Apptainer
from ..apptainer.apptainer import unpack as unpack_image
from ..outcome import CouldNotRun, WorkFailed
from .build_dir import check_space, remove_tree, workplace

_TIMES = 4  # unpacked, an image is some three to four times as large


def unpack(job: ImageJob, report: Callable[[Event], None]) -> str:
    """Unpack the image of ``job.environment`` to the folder ``job.target``, unless it is there.

    Returns that folder. Raises WorkFailed or CouldNotRun.
    """
    image, target = Path(job.environment.image or ""), Path(job.target)
    folder = target.parent
    _check_folder(folder)
    if target.is_dir() and not target.is_symlink():
        report(Event(at=time.time(), step="unpack", message="Already unpacked.", share=1.0))
        return str(target)
    if not image.is_file():
        raise WorkFailed(f"'{image}' is not a file on this node.")
    check_space(folder, _TIMES * image.stat().st_size)
    with workplace(folder) as work:
        home = work / "home"
        home.mkdir(mode=0o700)
        apptainer = Apptainer(
            job.apptainer,
            temporary=str(work),
            home=str(home),
            keyring=signing.keyring(job.keyring),
            log=log_protocol.say,
        )
        if job.verify:
            report(Event(at=time.time(), step="verify", message="Verifying the signature"))
            signing.verify(apptainer, image)
        report(Event(at=time.time(), step="unpack", message=f"Unpacking {image.name}"))
        new = work / "new"
        unpack_image(apptainer, image, new)
        _close(new)
        try:
            new.rename(target)
        except OSError:
            if not target.is_dir():  # else another job was faster, with the same
                raise
    return str(target)


def prune(folder: Path, *, older_than: float, keep: Collection[str] = ()) -> list[str]:
    """Remove the copies below ``folder`` that were made more than ``older_than`` seconds ago,
    except those named in ``keep``; return the names removed."""
    _check_folder(folder)
    removed = []
    for copy in sorted(folder.iterdir()):
        hidden = copy.name.startswith(".")
        if hidden or copy.name in keep or copy.is_symlink() or not copy.is_dir():
            continue
        # ctime: the image's own times stay on its folder.
        if time.time() - copy.stat().st_ctime > older_than:
            # A session must not begin in what is half gone.
            leaving = copy.with_name(f".build-{copy.name}")
            copy.rename(leaving)
            remove_tree(leaving)
            removed.append(copy.name)
    return removed


def _check_folder(folder: Path) -> None:
    """Raise CouldNotRun unless only root and this account can change what is in ``folder``."""
    for part in (folder, *folder.parents):
        try:
            status = part.lstat()
        except OSError as error:
            raise CouldNotRun(
                f"'{folder}' (c.Images.node_cache) cannot be used on this node: "
                f"{error.strerror}. Create it, owned by the account of the builds."
            ) from None
        writable = stat.S_IMODE(status.st_mode) & 0o022 and not (
            part != folder and status.st_mode & stat.S_ISVTX
        )
        known = status.st_uid in (0, os.geteuid())
        if writable or not known or not stat.S_ISDIR(status.st_mode):
            raise CouldNotRun(
                f"'{folder}' (c.Images.node_cache) is not safe: another account could change "
                f"'{part}'. It must be a folder without links in its path, owned by root or "
                "the builds' account, and not writable by others."
            )


def _close(root: Path) -> None:
    """Let everybody read the copy, its owner alone write, and nothing in it run as its owner."""
    for folder, names, files in os.walk(root):
        for path in (Path(folder), *(Path(folder) / name for name in (*names, *files))):
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                continue
            mode = stat.S_IMODE(status.st_mode) & 0o755 | 0o444
            if stat.S_ISDIR(status.st_mode) or mode & 0o111:
                mode |= 0o111
            path.chmod(mode | (0o200 if stat.S_ISDIR(status.st_mode) else 0))
