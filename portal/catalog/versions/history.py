"""History of the catalog's files: changes made by hand become versions, too."""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from portal.models.audit import AuditAction, AuditEntry, Outcome
from portal.models.catalog.catalog import EnvironmentVersion, Origin
from portal.models.catalog.environment import EnvironmentState
from portal.store import Store

from ..files import EnvironmentCatalog, SourceFile

Note = Callable[[AuditEntry], Awaitable[object]]
FILE_STATES = frozenset(
    {EnvironmentState.READY, EnvironmentState.DEPRECATED, EnvironmentState.WITHDRAWN}
)


class FileHistory:
    """Keeper of ``store.versions`` as the history of the files in the catalog's directory.

    A file with the bytes of a version *is* that version: so a service that ended between writing a
    file and recording it in the database recovers, and a file that ``git`` restores is the version
    that it was. Not for concurrent callers.
    """

    def __init__(self, catalog: EnvironmentCatalog, store: Store, note: Note) -> None:
        self._catalog, self._store, self._note = catalog, store, note
        self._files: dict[str, str] = {}  # name -> the file that it was read from last

    async def sync(self) -> dict[str, EnvironmentVersion]:
        """Record changes of the files; return the versions that are now published, by name.

        Raises StoreUnavailable.
        """
        catalog = self._catalog
        await catalog.load()
        published = await self._store.versions.published()
        if not catalog.loaded or any(e.file == catalog.directory for e in catalog.errors):
            return published
        sources = {n: s for n, s in catalog.sources.items() if "/" not in s.file}
        for name, source in sources.items():
            known = published.get(name)
            if known is None or known.file_hash != source.hash:
                published[name] = await self._changed(name, source)
        for name, known in list(published.items()):
            if name not in sources and known.file_hash and await self._gone(name, sources):
                published[name] = await self._removed(known)
        self._files |= {name: source.file for name, source in sources.items()}
        return published

    async def _changed(self, name: str, source: SourceFile) -> EnvironmentVersion:
        versions, now = self._store.versions, time.time()
        same = await versions.with_hash(name, source.hash)
        if same is not None:
            return await versions.change(name, same.number, published_at=now)
        environment = self._catalog.environments[name]
        author = await asyncio.to_thread(_account, source.owner)
        version = await versions.add_version(
            environment,
            author=author,
            at=min(source.at, now) if source.at > 0 else now,
            origin=Origin.FILE,
            state=environment.state if environment.state in FILE_STATES else EnvironmentState.DRAFT,
            comment=f"File {source.file} was edited by hand.",
            file_hash=source.hash,
            published_at=now,
        )
        await self._tell(author, version, f"File {source.file} was edited by hand.")
        return version

    async def _gone(self, name: str, sources: dict[str, SourceFile]) -> bool:
        """Return True if the file of ``name`` was removed, and is not only invalid now."""
        wrong = {error.file for error in self._catalog.errors if "/" not in error.file}
        file = self._files.get(name)
        if file is None:  # never seen by this process: any invalid file may be it
            return not wrong
        if file in wrong:
            return False
        file_exists = await asyncio.to_thread((Path(self._catalog.directory) / file).exists)
        return not file_exists or any(source.file == file for source in sources.values())

    async def _removed(self, known: EnvironmentVersion) -> EnvironmentVersion:
        environment = known.environment.model_copy(
            update={"state": EnvironmentState.WITHDRAWN, "message": "The file was removed."}
        )
        owner = await asyncio.to_thread(_owner, self._catalog.directory)
        version = await self._store.versions.add_version(
            environment,
            author=owner,
            at=time.time(),
            origin=Origin.FILE,
            state=EnvironmentState.WITHDRAWN,
            comment="The file was removed by hand.",
            base=known.number,
            published_at=time.time(),
        )
        self._files.pop(known.name, None)
        await self._tell(owner, version, "The file was removed by hand.")
        return version

    async def _tell(self, author: str, version: EnvironmentVersion, detail: str) -> None:
        await self._note(
            AuditEntry(
                at=time.time(),
                actor=author,
                action=AuditAction.CHANGE_ENVIRONMENT_FILE,
                target=f"environment {version.name} version {version.number}",
                outcome=Outcome.DONE,
                detail=detail,
            )
        )


def _account(number: int) -> str:
    """Return the name of an account; its number if it has none. Blocks (NSS)."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _owner(directory: str) -> str:
    """Return the owner of the directory, the nearest thing to the author of a removed file."""
    try:
        return _account(Path(directory).stat().st_uid)
    except OSError:
        return ""
