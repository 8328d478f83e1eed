"""Databases that this Hub may use: no restore is replacing its own (hub_patches/database_check.py),
and the portal's is not newer than this version. A Hub that may not ends with a sentence, before
anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyterhub.app import JupyterHub
from sqlalchemy import text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError
from tornado.log import app_log

from portal.errors import Conflict, PortalError
from portal.store import Store
from portal.store.engine.in_use import NUMBER, hold
from portal.store.engine.upgrade import ensure_known

_RESTORED = (
    "A restore of the Hub's database runs now (portal restore): the Hub does not start before its "
    "end. Nothing was changed."
)
_held: list[int] = []  # until this process ends


def watch(hub: JupyterHub) -> None:
    """Check the portal's database when the Hub's own is open, and the configuration is read."""
    hub.observe(_opened, names="session_factory")


def _opened(change: Any) -> None:
    hub = change.owner
    try:
        ensure_known(Store(config=hub.config, log=hub.log).database.address)
    except PortalError as error:
        hub.log.critical("%s", error.message)
        hub.exit(1)


def hold_lock(engine: Engine) -> None:
    """Hold the lock of the Hub's database, if it is a file. Raises Conflict while a restore has it
    alone."""
    if engine.dialect.name == "sqlite":
        if engine.url.database in (None, "", ":memory:"):
            return
        try:
            descriptor = hold(Path(engine.url.database).absolute(), alone=False)
        except OSError as error:  # a full disk: the Hub works without new files
            app_log.warning("The Hub's database has no lock against restores: %s", error)
            return
        if descriptor is None:
            raise Conflict(_RESTORED)
        _held.append(descriptor)
    elif engine.dialect.name == "postgresql":
        # A connection stays open in the pool: a restore that begins later sees it.
        try:
            with engine.connect() as connection:
                asked = text("SELECT pg_try_advisory_xact_lock_shared(:number)")
                free = connection.execute(asked, {"number": NUMBER}).scalar_one()
        except SQLAlchemyError as error:
            app_log.warning("The Hub's database has no lock against restores: %s", error)
            return
        if not free:
            raise Conflict(_RESTORED)
