"""Tasks that start with the Hub, before anybody has come."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jupyterhub import orm
from jupyterhub.app import JupyterHub
from pydantic import ValidationError
from sqlalchemy import make_url

from portal import disk
from portal.logs.tracing import prepared
from portal.models.session.session import SessionRecord
from portal.periodic import Periodic
from portal.sessions.unknown_jobs import Known, job_ids_of

from ..context import HubContext
from ..launch.job_log import log_prefix
from ..lifecycle.orphans import Orphans
from ..lifecycle.session_history import stored_record
from ..settings import SessionSettings

_ROOM_AGAIN = 600.0  # seconds
_tasks: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references
_YOUNG = 10_000  # new objects until a garbage collection; Python's default is 700
_EXPECTED = (  # JupyterHub's warnings (handlers/base.py) of a slow queue
    "User %s is slow to start (timeout=%s)",
    "User %s:%s server is slow to stop (timeout=%s)",
)


def watch(hub: JupyterHub) -> None:
    """Start the tasks once the Hub has its database and its settings. JupyterHub has no hook for
    that; its ``tornado_settings`` are complete at that moment."""
    hub.observe(_began, names="tornado_settings")


def _began(change: Any) -> None:
    hub = change.owner
    if "hub" not in change.new:  # the site's own setting, while the configuration is read
        return
    _tell_unused(hub)
    prepared()  # else the first launch would wait for its imports
    hub.log.addFilter(no_warning_of_waits)
    shared = HubContext.instance(hub.config)
    shared.form.load()
    pages = change.new["jinja2_env"]
    for page in pages.list_templates(("html",)):
        with contextlib.suppress(TemplateError):  # a site's own; whoever opens it sees the error
            pages.get_template(page)
    shared.announcements.start()
    shared.recorder.start(lambda: held(hub.db))
    shared.recorder.take_over(left(hub.db))
    logs = f"{_setting(hub, 'log_directory')}/{log_prefix()}-"
    orphans = Orphans(shared.cluster, shared.recorder, lambda: known(hub), logs, hub.log)
    _tasks.add(asyncio.ensure_future(orphans.run()))
    _keep_collections_short()
    _tasks.add(asyncio.ensure_future(_keep_room(hub)))


def no_warning_of_waits(record: logging.LogRecord) -> bool:
    """Lower to INFO what JupyterHub warns of for each session that waits for Slurm."""
    if record.msg not in _EXPECTED:
        return True
    record.levelno, record.levelname = logging.INFO, "INFO"
    return logging.getLogger(record.name).isEnabledFor(logging.INFO)


async def _keep_room(hub: JupyterHub) -> None:
    """Keep space in the Hub's database, if it is a file, for changes when the disk is full."""
    address = make_url(hub.db_url)
    if address.get_backend_name() == "sqlite" and address.database:
        keep = partial(asyncio.to_thread, disk.keep_room, Path(address.database))
        await Periodic("The space for the Hub's database", keep, _ROOM_AGAIN, hub.log).run()


def _tell_unused(hub: JupyterHub) -> None:
    """Warn of settings that a site has kept from batchspawner and nothing reads."""
    if issubclass(hub.spawner_class, SessionSettings):
        for name, instead in hub.spawner_class.unused_settings(hub.config).items():
            hub.log.warning("%s has no effect. %s", name, instead)


def _keep_collections_short() -> None:
    """Exclude from Python's garbage collection what stays until the Hub ends (modules, classes,
    settings), and collect the rest less often: while a class is launched, scanning all of it
    again blocks the Hub for 0.3 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


def held(db: Any) -> set[str]:
    """Return the ids of sessions that have a spawner, from the Hub's own database: a starting Hub
    has not made these spawners yet."""
    rows = db.query(orm.Spawner).filter(orm.Spawner.server_id.is_not(None))
    return {record["id"] for row in rows if (record := (row.state or {}).get("record"))}


def known(hub: Any) -> Known:
    """Return the jobs and the starting servers of all spawners, those in the database too."""
    ids: set[str] = set()
    for row in hub.db.query(orm.Spawner.state):
        ids |= job_ids_of(row.state)
    starts, own = set(), set()
    for user in hub.users.values():
        for name, spawner in user.spawners.items():
            ids |= {str(getattr(spawner, "job_id", ""))} | job_ids_of(spawner.get_state())
            if spawner.pending == "spawn":
                starts.add((user.name, name))
            elif job_id := getattr(spawner, "job_id", ""):
                own.add((user.name, name, str(job_id)))
    return Known(ids, starts, own)


def _setting(hub: Any, name: str) -> str:
    """Return a setting of the site's spawners."""
    for parent in hub.spawner_class.mro():
        if name in hub.config.get(parent.__name__, ()):
            return str(hub.config[parent.__name__][name])
    return str(hub.spawner_class.class_traits()[name].default_value)


def left(db: Any) -> list[SessionRecord]:
    """Return records of ended sessions that the portal's database did not take in time."""
    records = []
    for row in db.query(orm.Spawner).filter(orm.Spawner.server_id.is_(None)):
        try:
            if record := (row.state or {}).get("record"):
                records.append(stored_record(record))
        except ValidationError:
            continue
    return records
