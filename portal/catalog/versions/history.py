"""The history of the catalog's files: what somebody changed by hand becomes a version, too."""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from portal.models.audit import AuditEntry, Outcome
from portal.models.catalog.catalog import EnvironmentVersion, Origin
from portal.models.catalog.environment import EnvironmentState
from portal.store import Store

from ..files import EnvironmentCatalog, SourceFile

Note = Callable[[AuditEntry], Awaitable[None]]
FILE_STATES = frozenset(
    {EnvironmentState.READY, EnvironmentState.DEPRECATED, EnvironmentState.WITHDRAWN}
)


class FileHistory:
    """Keeps ``store.versions`` the history of the files in the catalog's directory.

    A file whose bytes are those of a version *is* that version: so a service that ended between
    the writing of a file and the line about it in the database finds its way back, and a file that
    ``git`` puts back is the version that it was. Not for two callers at one moment.
    """

    def __init__(self, catalog: EnvironmentCatalog, store: Store, note: Note) -> None:
        self._catalog, self._store, self._note = catalog, store, note
        self._files: dict[str, str] = {}  # name -> the file that it was read from last

    async def sync(self) -> dict[str, EnvironmentVersion]:
        """Look at the files, and note what is new. Returns what is published now, by name.

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
        made = await versions.add(
            environment,
            author=author,
            at=min(source.at, now) if source.at > 0 else now,
            origin=Origin.FILE,
            state=environment.state if environment.state in FILE_STATES else EnvironmentState.DRAFT,
            comment=f"Written by hand into {source.file}.",
            file_hash=source.hash,
            published_at=now,
        )
        await self._tell(author, made, f"Its file {source.file} was written by hand.")
        return made

    async def _gone(self, name: str, sources: dict[str, SourceFile]) -> bool:
        """Whether the file of ``name`` was removed, and is not only wrong now."""
        wrong = {error.file for error in self._catalog.errors if "/" not in error.file}
        file = self._files.get(name)
        if file is None:  # this process has never seen it: any file that is wrong may be it
            return not wrong
        if file in wrong:
            return False
        there = await asyncio.to_thread((Path(self._catalog.directory) / file).exists)
        return not there or any(source.file == file for source in sources.values())

    async def _removed(self, known: EnvironmentVersion) -> EnvironmentVersion:
        environment = known.environment.model_copy(
            update={"state": EnvironmentState.WITHDRAWN, "message": "Its file was removed."}
        )
        owner = await asyncio.to_thread(_owner, self._catalog.directory)
        made = await self._store.versions.add(
            environment,
            author=owner,
            at=time.time(),
            origin=Origin.FILE,
            state=EnvironmentState.WITHDRAWN,
            comment="Its file was removed by hand.",
            base=known.number,
            published_at=time.time(),
        )
        self._files.pop(known.name, None)
        await self._tell(owner, made, "Its file was removed by hand.")
        return made

    async def _tell(self, author: str, made: EnvironmentVersion, detail: str) -> None:
        await self._note(
            AuditEntry(
                at=time.time(),
                actor=author,
                action="change-environment-file",
                target=f"environment {made.name} version {made.number}",
                outcome=Outcome.DONE,
                detail=detail,
            )
        )


def _account(number: int) -> str:
    """The name of an account; its number where it has none. Blocks (NSS)."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _owner(directory: str) -> str:
    """Whose the directory is: the nearest to an author of a file that is gone."""
    try:
        return _account(Path(directory).stat().st_uid)
    except OSError:
        return ""
