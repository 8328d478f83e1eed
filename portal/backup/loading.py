"""Load of PostgreSQL's archive into a database: prepared in one transaction, which replaces what
the Hub's account has there, and committed or rolled back later."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO

from portal.errors import Conflict, StoreUnavailable
from portal.store.engine.in_use import NUMBER

from .databases import SiteDatabase, program_call, query, refused

_ALONE, _READY, _DONE = "portal-alone", "portal-loaded", "portal-committed"
# Tables that are newer than the backup must go too, so that migrations can make them again. Objects
# of others and of extensions stay.
_CLEAR = r"""
DO $$
DECLARE
  item record;
  me oid := (SELECT oid FROM pg_roles WHERE rolname = current_user);
BEGIN
  FOR item IN
    SELECT format('%I.%I', n.nspname, c.relname) AS name,
           CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                          WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^(pg_|information_schema$)' AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
      AND c.relowner = me
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    UNION ALL
    SELECT p.oid::regprocedure::text, 'ROUTINE'
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname !~ '^(pg_|information_schema$)' AND p.proowner = me
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    UNION ALL
    SELECT format('%I.%I', n.nspname, t.typname), 'TYPE'
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE n.nspname !~ '^(pg_|information_schema$)' AND t.typtype IN ('e', 'd')
      AND t.typowner = me
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = t.oid AND d.deptype = 'e')
  LOOP
    EXECUTE format('DROP %s IF EXISTS %s CASCADE', item.kind, item.name);
  END LOOP;
END $$;
"""


# A Hub that begins looks for this lock once it is connected (spawners/config/databases.py).
_LOCK = f"""
DO $$
BEGIN
  IF NOT pg_try_advisory_xact_lock({NUMBER}) THEN
    RAISE EXCEPTION 'another restore, or a Hub that begins, has the lock of this database';
  END IF;
END $$;
"""


def ensure_unused(database: SiteDatabase) -> None:
    """Raise Conflict if somebody is connected as the Hub's account, StoreUnavailable if the
    database does not answer."""
    statement = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "  # noqa: S608
        "AND usename = current_user AND pid <> pg_backend_pid() AND pid NOT IN "
        "(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' "
        f"AND granted AND classid = {NUMBER >> 32} AND objid = {NUMBER & 0xFFFFFFFF})"
    )
    try:
        number = query(database, statement)
    except StoreUnavailable as error:
        if "does not exist" in error.message:
            raise StoreUnavailable(
                f"{error.message} Create it as docs/how-to/database.md describes, empty, then "
                "restore again."
            ) from None
        raise
    if number != "0":
        raise Conflict(
            f"{number} connections to {database.place} are open: stop the Hub, and whatever else "
            "uses it, then restore again. Nothing was changed."
        )


class Loading:
    """Transaction of psql in which an archive has been loaded."""

    def __init__(self, database: SiteDatabase) -> None:
        self.database = database
        self.committed = False
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed at the end
        argv, more = program_call(database, "psql", "-Xq", "--set=ON_ERROR_STOP=1")
        self._psql = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, **more
        )

    def __enter__(self) -> Loading:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Roll back what is not committed."""
        if self._psql.poll() is None:
            self._psql.terminate()
            self._psql.wait()
        for stream in (self._psql.stdin, self._psql.stdout, self._stderr):
            with contextlib.suppress(OSError):  # what was not sent is not wanted
                if stream is not None:
                    stream.close()

    def keep_hub_out(self) -> None:
        """Begin, with the lock that keeps a Hub out. Raises StoreUnavailable if somebody has it,
        Conflict if a Hub has come before."""
        self._demand(f"\\o /dev/null\nBEGIN;\n{_LOCK}\n\\echo {_ALONE}\n", _ALONE)
        ensure_unused(self.database)

    def load(self, dump: Path) -> None:
        """Replace the tables by those of ``dump``, without a commit. Raises StoreUnavailable."""
        assert self._psql.stdin is not None
        words = ["pg_restore", "--no-owner", "--no-privileges", "--file=-"]
        with (
            dump.open("rb") as file,
            subprocess.Popen(
                words, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as reader,
        ):
            assert reader.stdout is not None and reader.stderr is not None
            try:
                self._send("SET LOCAL lock_timeout = '20s';\n" + _CLEAR)
                shutil.copyfileobj(reader.stdout, self._psql.stdin)
            except BrokenPipeError:
                reader.kill()
                raise self._failed() from None
            problem = reader.stderr.read()
            if reader.wait():
                raise refused(self.database, "pg_restore", problem)
        self._demand(f"\n\\echo {_READY}\n", _READY)

    def commit(self) -> None:
        """Commit. Raises StoreUnavailable; nothing is changed then."""
        self._demand(f"COMMIT;\n\\echo {_DONE}\n", _DONE)
        self.committed = True

    def _send(self, text: str) -> None:
        assert self._psql.stdin is not None
        self._psql.stdin.write(text.encode())
        self._psql.stdin.flush()

    def _demand(self, text: str, word: str) -> None:
        assert self._psql.stdout is not None
        try:
            self._send(text)
            for line in self._psql.stdout:
                if line.decode().strip() == word:
                    return
        except BrokenPipeError:
            pass
        raise self._failed()

    def _failed(self) -> StoreUnavailable:
        self._psql.wait()
        self._stderr.seek(0)
        return refused(self.database, "psql", self._stderr.read())
