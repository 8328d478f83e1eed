"""Runs, and what leads to them, that a user can go to by name."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from portal.models.destination import Destination, words_of
from portal.models.session.run import Run
from portal.store import Store
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable, Viewer

_MOST = 20  # runs that are read


async def run_destinations(
    store: Store, viewer: Viewer, text: str, prefix: str, *, offered: bool
) -> Sequence[Destination]:
    """Return the viewer's runs with a word of ``text`` in their name and those of others that they
    may see, the newest first. ``offered``: the viewer may start runs."""
    user = viewer.user
    root = f"{prefix}runs"
    word = max(words_of(text), key=len, default="")
    own, _ = await store.table(RunTable).of_user(user, text=word, limit=_MOST)
    shared, _ = await store.table(RunShareTable).with_user(viewer, text=word, limit=_MOST)
    return [
        *([Destination(kind="action", title="New run", url=f"{root}/new")] if offered else ()),
        *(_destination(run, user, root) for run in (*own, *shared)),
    ]


def _destination(run: Run, user: str, root: str) -> Destination:
    owner = run.user if run.user != user else ""
    query = f"?{urlencode({'owner': owner})}" if owner else ""
    shared = f"shared by {owner}" if owner else ""
    detail = ", ".join(filter(None, (run.environment, shared)))
    return Destination(kind="run", title=run.name, detail=detail, url=f"{root}/{run.id}{query}")
