"""Check of the Hub's database before anything else is read: no restore is replacing it, and words
for one of a newer JupyterHub.

For each version that is not its own, JupyterHub advises `jupyterhub upgrade-db`, which ends with a
traceback where the version is newer: after a downgrade, or with a wrong file.
"""

from __future__ import annotations

import re
from functools import wraps
from typing import Any

from alembic.script import ScriptDirectory
from jupyterhub import orm
from jupyterhub.dbutil import ALEMBIC_DIR

from portal.errors import Conflict

from ..config.databases import hold_lock
from .patch import Patch

_REVISION = re.compile(r"database schema version (\w+)")


def _in_words(check: Any) -> Any:
    @wraps(check)
    def check_in_words(engine: Any) -> None:
        try:
            hold_lock(engine)
            check(engine)
        except orm.DatabaseSchemaMismatch as error:
            found = _REVISION.search(str(error))
            scripts = ScriptDirectory(ALEMBIC_DIR)
            known = {script.revision for script in scripts.walk_revisions()}
            if found is None or found[1] in known:
                raise
            raise orm.DatabaseSchemaMismatch(
                f"The Hub's database has a newer version ({found[1]}) than this JupyterHub "
                f"({scripts.get_current_head()}). Nothing was changed. Install the newer "
                "JupyterHub again, or restore the backup from before the upgrade "
                "(portal restore FILE)."
            ) from None
        except Conflict as error:
            raise orm.DatabaseSchemaMismatch(error.message) from None

    check_in_words.in_words = True  # type: ignore[attr-defined]
    return check_in_words


def apply() -> None:
    """Extend JupyterHub's own check. Call it before the Hub opens its database."""
    if not hasattr(orm.check_db_revision, "in_words"):
        orm.check_db_revision = _in_words(orm.check_db_revision)


PATCH = Patch(
    name="database-check",
    changes=("jupyterhub.orm:check_db_revision",),
    why="JupyterHub advises `jupyterhub upgrade-db`, which ends with a traceback of Alembic's.",
    upstream="none",
    until="JupyterHub tells a newer database from an older one.",
    apply=apply,
)
