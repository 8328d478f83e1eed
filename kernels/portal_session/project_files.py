"""Files of a repository that a project was forked from: the first session of an owner puts them
into the project's folder, or without one into the folder of its name in the home. Nothing that is
there is overwritten, and no link is followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tarfile
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from .publication import publish
from .service import Address, Service, ServiceError
from .situation import in_thread

_PATH = "session/project/files"
_PAUSES = (5.0, 20.0, 60.0, 300.0)  # seconds between the tries
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    address = Address.from_environ(os.environ)
    if address is not None and os.environ.get("PORTAL_PROJECT_ROLE") == "owner":
        files = ProjectFiles(Service(address, os.environ), folder_of(os.environ), app.log)
        app.io_loop.spawn_callback(files.run)


def folder_of(environ: Mapping[str, str]) -> Path:
    """Return where the files of the session's project go."""
    folder = environ.get("PORTAL_PROJECT_FOLDER", "")
    return Path(folder) if folder else Path.home() / environ.get("PORTAL_PROJECT", "project")


class ProjectFiles:
    """Files of the session's project."""

    def __init__(self, service: Any, folder: Path, log: Any) -> None:
        self._service, self._folder, self._log = service, folder, log

    async def run(self) -> None:
        """Bring the files, if there are any; raises nothing."""
        for pause in (*_PAUSES, 0.0):
            try:
                await in_thread(self.bring)
                return
            except ServiceError as error:
                if error.status in (
                    401,
                    403,
                    404,
                ):  # there are none, or they are another's to bring
                    return
                problem: object = error
            except (OSError, tarfile.TarError, ValueError) as error:
                problem = getattr(error, "strerror", None) or error
            self._log.warning("The project's files could not be brought: %s", problem)
            await asyncio.sleep(pause)

    def bring(self) -> None:
        """Put the files into the folder, and tell the portal. Blocks. Raises ServiceError, OSError,
        TarError, ValueError."""
        with tempfile.TemporaryDirectory(prefix="portal-project-") as place:
            archive = Path(place) / "files.tar"
            self._service.download(_PATH, archive)
            with tarfile.open(archive) as packed:
                made, kept = unpack(packed, self._folder)
                revision = packed.pax_headers.get("comment", "")  # git-archive(1)
        words = f"{made} files were put into {self._folder}."
        if kept:
            words += f" {len(kept)} were there already and are as they were: {', '.join(kept[:5])}."
        self._service.ask("PUT", _PATH, {"revision": revision, "message": words[:1000]})
        self._log.info("Project: %s", words)


def unpack(packed: tarfile.TarFile, folder: Path) -> tuple[int, list[str]]:
    """Put the regular files of an archive into a folder; return their number, and the paths that
    were there already. Raises OSError, ValueError for a path that leads out."""
    folder.mkdir(exist_ok=True)
    made, kept = 0, []
    for member in packed:
        if not member.isfile():
            continue
        steps = member.name.split("/")
        if not all(steps) or {".", ".."} & set(steps) or member.name.startswith("/"):
            raise ValueError(f"'{member.name[:100]!r}' leads out of the folder")
        content = packed.extractfile(member)
        assert content is not None
        opened = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)  # the site's own path may be a link
        try:
            for step in steps[:-1]:
                opened = _entered(opened, step)
            if _written(opened, steps[-1], content, executable=bool(member.mode & 0o100)):
                made += 1
            else:
                kept.append(member.name)
        except (FileExistsError, NotADirectoryError):  # a file or link, where a folder has to be
            kept.append(member.name)
        finally:
            os.close(opened)
    return made, kept


def _entered(opened: int, name: str) -> int:
    """Return a folder in an open one, which is closed unless this fails; make it if needed. Raises
    OSError."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=opened)
    try:
        inner = os.open(name, _FOLDER, dir_fd=opened)
    except OSError as error:
        raise NotADirectoryError(error.errno, error.strerror, name) from None
    os.close(opened)
    return inner


def _written(opened: int, name: str, content: IO[bytes], *, executable: bool) -> bool:
    """Write a file, whole or not at all; return False if there is one of that name. Raises
    OSError."""
    try:
        os.stat(name, dir_fd=opened, follow_symlinks=False)
        return False
    except FileNotFoundError:
        pass
    new = f".portal-{uuid.uuid4().hex}"
    # The umask and the folder's default ACL say who may read it.
    mode = 0o777 if executable else 0o666
    try:
        with os.fdopen(os.open(new, _NEW, mode, dir_fd=opened), "wb") as file:
            shutil.copyfileobj(content, file)
            file.flush()
            publish(file.fileno(), new, name, opened)
        return True
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=opened)
