"""Starter notebooks of a session's environment, for the session that copies them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from portal.errors import NotFound
from portal.models import Frozen
from portal.paths import data_path

from ..base.endpoint import Operation
from ..base.own_session import OwnSession

FOLDER = "environments/starters"  # of deploy/
LARGEST = 100_000  # bytes of one notebook
_NAME = r"[a-z0-9][a-z0-9_-]{0,62}\.(?:ipynb|py)"


class Starters(Frozen):
    """Environment and the names of its notebooks, in its order."""

    environment: str
    starters: tuple[str, ...]


class StarterText(Frozen):
    """Notebook, as it stands in its file."""

    name: str
    text: str


class OwnStarters(OwnSession):
    """``session/starters``: the names of the notebooks."""

    path = "session/starters"

    @Operation("List the starter notebooks of the calling session's environment.")
    async def on_get(self) -> Starters:
        """Use the session's own token only."""
        record, _ = await self.own()
        await self.parts.catalog.load()
        environment = self.parts.situations.environment(record)
        names = environment.starters if environment else ()
        return Starters(environment=record.environment, starters=names)


class OwnStarter(OwnSession):
    """``session/starters/{name}``: a single notebook."""

    path = "session/starters/{name}"
    parameters = {"name": _NAME}

    @Operation("Get a starter notebook of the calling session's environment.")
    async def on_get(self, name: str) -> StarterText:
        """Use the session's own token only.

        404 for what the environment does not name, and for a notebook that is not installed with
        the portal or is larger than 100 kB.
        """
        record, _ = await self.own()
        environment = self.parts.situations.environment(record)
        if environment is None or name not in environment.starters:
            raise NotFound(f"The environment of this session has no starter notebook '{name}'.")
        text = await asyncio.to_thread(_read, data_path("deploy") / FOLDER / name)
        if text is None:
            raise NotFound(f"The starter notebook '{name}' is not installed with this portal.")
        return StarterText(name=name, text=text)


def _read(path: Path) -> str | None:
    try:
        if path.stat().st_size > LARGEST:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


ENDPOINTS = (OwnStarters, OwnStarter)
