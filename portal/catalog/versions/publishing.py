"""Publishing of versions: the conditions, and the writing of the file."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from portal.errors import Conflict, PortalError
from portal.models.catalog.catalog import EnvironmentVersion
from portal.models.catalog.environment import (
    EVERYONE,
    Environment,
    EnvironmentKind,
    EnvironmentState,
)
from portal.store import Store

from ..definitions.file_edits import edited_text
from ..definitions.reading import hash_of
from ..definitions.writing import remove_file, write_file
from ..definitions.yaml_text import yaml_text
from ..files import PREVIEW, PREVIEWS, EnvironmentCatalog
from .history import FILE_STATES

_UNDER_WAY = {
    EnvironmentState.BUILDING: "is being built",
    EnvironmentState.TESTING: "is being tested",
}


class EditConflict(Conflict):
    """Conflict with somebody else's change of the environment. ``details``: ``current`` is the
    present text, ``yours`` the one that was refused, ``number`` the version to go on from."""

    code = "edit_conflict"

    def __init__(self, message: str, current: EnvironmentVersion, yours: Environment) -> None:
        super().__init__(message)
        self.details = {
            "current": yaml_text(current.environment),
            "yours": yaml_text(yours),
            "number": current.number,
        }


class Publisher:
    """Writer of the files of published versions and previews. Not for concurrent callers."""

    def __init__(self, catalog: EnvironmentCatalog, store: Store) -> None:
        self._catalog, self._versions = catalog, store.versions

    async def publish(
        self, version: EnvironmentVersion, environment: Environment, *, is_new: bool
    ) -> EnvironmentVersion:
        """Write ``environment``, which ``version`` is from then on, into the catalog.

        Its hash goes into the database first: if the service ends between the two, the next sync
        of the files knows the version. If the file cannot be written, the version is removed if it
        ``is_new``, made for this; any other stays as it was. Raises CatalogNotWritable, Conflict,
        Unavailable, StoreUnavailable.
        """
        name, number = version.name, version.number
        source = self._catalog.sources.get(name)
        # Not a preview, and not what somebody registered under this name: they have files of
        # their own in other folders.
        known = source if source and "/" not in source.file else None
        path = Path(self._catalog.directory) / (known.file if known else f"{name}.yaml")
        text = await asyncio.to_thread(self._text, environment, path if known else None)
        await self._versions.change(
            name, number, environment=environment, file_hash=hash_of(text.encode())
        )
        try:
            await asyncio.to_thread(write_file, path, text, known.hash if known else "")
        except PortalError:
            if is_new:
                await self._versions.remove(name, number)
            else:
                before = {"environment": version.environment, "file_hash": version.file_hash}
                await self._versions.change(name, number, **before)
            raise
        done = await self._versions.change(
            name, number, published_at=time.time(), state=environment.state
        )
        await asyncio.to_thread(remove_file, self._preview_path(name))
        await self._catalog.load()
        return done

    async def preview(self, version: EnvironmentVersion) -> Environment:
        """Write ``version`` as a preview, in the place of an earlier one; return what can be
        launched. Raises as ``publish`` does."""
        environment = _as_preview(version)
        path = self._preview_path(version.name)
        await asyncio.to_thread(_make_folder, path.parent)
        await asyncio.to_thread(write_file, path, yaml_text(environment), None)
        await self._catalog.load()
        return environment

    async def demand_descent(
        self, version: EnvironmentVersion, published: EnvironmentVersion
    ) -> None:
        """Raise EditConflict unless ``version`` was edited from the published one, directly or
        through other versions."""
        at = version
        while at.number > published.number and at.base is not None:
            at = await self._versions.get(version.name, at.base)
        if at.number == published.number:
            return
        raise EditConflict(
            f"Version {version.number} of '{version.name}' is not based on version "
            f"{published.number}, which is currently published (by "
            f"{published.author or 'an unknown user'}). Edit the newest version, or roll back "
            "to this one.",
            published,
            version.environment,
        )

    def _text(self, environment: Environment, path: Path | None) -> str:
        """Return the text of the file for ``environment``, made from the one at ``path``."""
        edited = fresh = yaml_text(environment)
        with contextlib.suppress(OSError):  # writing says what is wrong with it
            edited = edited_text(path.read_bytes(), environment) if path else fresh
        return edited if len(edited.encode()) <= self._catalog.max_size else fresh

    def _preview_path(self, name: str) -> Path:
        return Path(self._catalog.kept_directory) / PREVIEWS / f"{name}{PREVIEW}.yaml"


def demand_ready(version: EnvironmentVersion) -> None:
    """Raise Conflict unless the version is known to work. Virtual environments and modules, which
    are not built, need no test before."""
    state, what = version.state, f"Version {version.number} of '{version.name}'"
    if state in FILE_STATES:
        return
    if (
        state is EnvironmentState.DRAFT
        and version.environment.kind is not EnvironmentKind.CONTAINER
    ):
        return
    if state is EnvironmentState.FAILED:
        raise Conflict(f"{what} failed: {version.message or 'the test failed'}")
    if state in _UNDER_WAY:
        raise Conflict(f"{what} {_UNDER_WAY[state]}. Wait until it has finished.")
    needs = "tested" if version.environment.image else "built"
    raise Conflict(f"{what} is a draft and must be {needs} first.")


async def demand_image(environment: Environment) -> None:
    """Raise Conflict if the image file is known to be gone."""
    if environment.kind is EnvironmentKind.CONTAINER and environment.image:
        image = Path(environment.image)
        if await asyncio.to_thread(lambda: image.parent.is_dir() and not image.exists()):
            raise Conflict(f"The image {image} no longer exists. Build it again.")


def _as_preview(version: EnvironmentVersion) -> Environment:
    before = version.environment
    values = before.model_dump(mode="json", exclude_unset=True) | {
        "name": before.name[: 63 - len(PREVIEW)].rstrip(".-_") + PREVIEW,
        "title": f"{before.title[:90]} (preview of version {version.number})",
        "state": EnvironmentState.READY.value,
        "message": "",
        **EVERYONE.values(),
    }
    return Environment.model_validate(values)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise Conflict(
            f"{folder} cannot be created ({error.strerror}). The service's account needs write "
            "access to c.EnvironmentCatalog.kept_directory."
        ) from None
