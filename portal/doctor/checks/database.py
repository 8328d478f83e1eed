"""Check of the portal's database: its connection, and the version of its tables."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from pathlib import Path

from portal.errors import StoreUnavailable
from portal.store import HEAD, Store

from ..finding import Result, check, failure, ok, warning, worst
from ..site import Site
from .hub import running_hubs
from .storage import file_system

_HELP = "docs/how-to/database.md"
# File systems on which SQLite's locks, or the shared memory of its write-ahead log, do not work.
_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "9p", "fuse.sshfs")
)


@check("database", "The portal's database answers and its tables are up to date")
async def database(site: Site) -> Result:
    store = await opened(site)
    if store.database.address.missing:
        return warning(
            f"{store.database.address.path} does not exist yet",
            "The Hub creates it at its start. A relative c.Store.url is resolved from the "
            "directory in which the Hub runs: run this command there, or set an absolute path.",
        )
    try:
        revision = await store.revision()
    except StoreUnavailable as error:
        detail = f": {store.detail}" if store.detail else ""
        return failure(
            f"{store.place}: {error.message}{detail}",
            f"Check that the database runs and accepts the Hub's account: {_HELP}.",
        )
    finally:
        await store.close()
    if revision != HEAD:
        tables = f"tables of version {revision}" if revision else "no tables yet"
        schema = warning(
            f"{store.place} has {tables}; this portal needs version {HEAD}",
            "Restart the Hub, which upgrades it, or run `portal database upgrade` as its account.",
        )
    else:
        schema = ok(f"{store.place}, version {revision}")
    return worst([schema, *await asyncio.to_thread(_files, store)])


async def opened(site: Site) -> Store:
    """Return the site's database; that of the running Hub for a relative path. The caller closes
    it."""
    store = Store(config=site.config, log=site.log)
    if store.database.address.missing:
        path = await asyncio.to_thread(_of_the_running_hub, site, store.url)
        if path is not None:
            return Store(config=site.config, log=site.log, url=f"sqlite:///{path}")
    return store


def _files(store: Store) -> list[Result]:
    """Return what is wrong with the files of the database and of its password."""
    results = []
    path, secret = store.database.address.path, store.database.address.password_file
    if path is not None and file_system(path) in _NETWORK:
        results.append(
            failure(
                f"{path} is on {file_system(path)}, where SQLite's locks do not work",
                f"Move it to a local disk, or use PostgreSQL: {_HELP}.",
            )
        )
    for file in (path, secret):
        if file is not None and (mode := stat.S_IMODE(file.stat().st_mode)) & 0o077:
            results.append(
                failure(f"{file} has mode {mode:04o}: others can read it", f"chmod 0600 {file}")
            )
    return results


def _of_the_running_hub(site: Site, url: str) -> Path | None:
    """Return the file that a relative URL means for the running Hub; None if there is none."""
    for process in running_hubs(site):
        with contextlib.suppress(OSError):
            path = (process / "cwd").resolve() / url.partition(":///")[2]
            if path.exists():
                return path
    return None
