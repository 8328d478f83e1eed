"""Upgrade of restored databases to the schema of this version."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from jupyterhub.dbutil import write_alembic_ini

from portal.errors import StoreUnavailable
from portal.store.engine.upgrade import upgrade

from .account import acting_as
from .databases import SiteDatabase, head_of
from .manifest import KeptDatabase, Role


def upgrade_words(kept: KeptDatabase) -> str:
    """Return words for the upgrade that the copy needs."""
    old = [role for role, revision in kept.roles.items() if revision not in ("", head_of(role))]
    return f", upgraded to this version's schema ({', '.join(old)})" if old else ""


def upgrade_tables(database: SiteDatabase, revisions: dict[Role, str]) -> None:
    """Upgrade the tables of an older version. Raises StoreUnavailable."""
    for role, revision in revisions.items():
        if revision in ("", head_of(role)):
            continue
        if role == "portal":
            with acting_as(database.account if database.address.path is None else ""):
                upgrade(database.address)
        else:
            _upgrade_hub(database)


def _upgrade_hub(database: SiteDatabase) -> None:
    address = database.address
    if address.path is not None:
        url = f"sqlite:///{address.path}"
    else:
        parsed = address.url.set(drivername="postgresql+psycopg")
        url = parsed.render_as_string(hide_password=False)
    with tempfile.TemporaryDirectory(prefix="portal-restore-") as folder:
        ini = Path(folder) / "alembic.ini"  # the folder is private: the URL may have a password
        write_alembic_ini(str(ini), url)
        done = subprocess.run(
            [sys.executable, "-m", "alembic", "-c", str(ini), "upgrade", "head"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise StoreUnavailable(
            f"The tables of the Hub in {database.place} cannot be upgraded: {last[0]}"
        )
