"""A restore and a Hub keep each other out, for as long as the other lives and no longer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import checkout
import psycopg
import pytest
from backup_site import Site
from jupyterhub.app import JupyterHub
from postgres import PASSWORD, PostgreSQL
from sqlalchemy import create_engine, text

from portal.__main__ import main
from portal.demo.daemons.ports import free_port
from portal.store.engine.in_use import NUMBER, hold

Make = Callable[..., Site]


@contextmanager
def held(site: Site, *, alone: bool) -> Iterator[None]:
    """Have another process hold the lock; at the end it is killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        holds = hold(site.state / "hub.sqlite", alone=alone) is not None
        os.write(writer, b"held" if holds else b"free")
        time.sleep(120)
        os._exit(1)
    try:
        assert os.read(reader, 4) == b"held"
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def started(site: Site) -> subprocess.CompletedProcess[str]:
    """Start a Hub with the site's configuration, which sets it up, as far as its database."""
    setup = "from spawners.hub_setup import set_up_hub\nset_up_hub()\n"
    if setup not in (config := site.config.read_text()):
        site.config.write_text(config.replace("'postgresql://", "'postgresql+psycopg://") + setup)

    def begin() -> None:
        hub = JupyterHub.instance()
        hub.load_config_file(str(site.config))
        hub.init_db()
        print("began", flush=True)

    return checkout.forked(begin, site.place)


def served(site: Site) -> subprocess.CompletedProcess[str]:
    """Start the web service as the Hub does."""

    def begin() -> None:
        signal.alarm(60)  # one that serves does not end
        os.environ |= {
            "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{free_port()}",
            "JUPYTERHUB_API_TOKEN": "token",
            "JUPYTERHUB_CLIENT_ID": "service-portal",
        }
        sys.argv = ["portal", "service", f"--config={site.config}"]
        main()

    return checkout.forked(begin, site.place)


def change(url: str, statement: str) -> None:
    """Run a statement on a database of the site."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_no_restore_while_a_hub_lives(site: Site, backup: Path) -> None:
    before = site.rows()
    with held(site, alone=False):
        with held(site, alone=False):
            done = site.restore(backup)
        assert done.returncode == 1
        assert f"A Hub uses {site.state}/hub.sqlite, or another restore" in done.stderr
        assert "Nothing was changed" in done.stderr
    assert site.rows() == before
    assert not [*site.place.rglob("*.restore-new*")]
    assert site.restore(backup).returncode == 0, "a killed holder holds nothing"


def test_no_hub_while_a_restore_lives(site: Site) -> None:
    content = (site.state / "hub.sqlite").read_bytes()
    with held(site, alone=True):
        done = started(site)
        assert done.returncode == 1 and "began" not in done.stdout
        assert "A restore of the Hub's database runs now" in done.stderr
        assert "Traceback" not in done.stderr
        assert (site.state / "hub.sqlite").read_bytes() == content
    done = started(site)
    assert "began" in done.stdout, done.stderr


def test_a_restore_holds_the_lock_and_gives_it_back(
    site: Site, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.backup.archive import Reader
    from portal.backup.restoring import Restore

    reader, database = Reader(backup), site.state / "hub.sqlite"
    restore = Restore(reader, None)
    stage, looked = restore._stage, []

    def staged(*arguments: Any) -> None:
        looked.append(hold(database, alone=False))
        stage(*arguments)

    monkeypatch.setattr(restore, "_stage", staged)
    restore.run()
    reader.close()
    assert looked and set(looked) == {None}
    assert hold(database, alone=True) is not None


def test_postgresql_keeps_them_apart_too(make_site: Make, postgres: PostgreSQL) -> None:
    site = make_site("postgresql")
    target = site.backups / "one.tar"
    assert site.backup(target).returncode == 0
    before = site.rows()
    with psycopg.connect(as_other(postgres, site.hub_url), autocommit=True) as connection:
        connection.execute(f"SELECT pg_advisory_lock({NUMBER})")  # as a restore does
        done = started(site)
        assert done.returncode == 1 and "A restore of the Hub's database runs now" in done.stderr
        done = site.restore(target)
        assert done.returncode == 1 and "has the lock of this database" in done.stderr
        assert site.rows() == before
    assert "began" in started(site).stdout
    assert site.restore(target).returncode == 0


def as_other(server: PostgreSQL, url: str) -> str:
    """Return the address of a database for an account that is not the Hub's: its connections do not
    count."""
    server.sql("DROP ROLE IF EXISTS other")
    server.sql(f"CREATE ROLE other LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    return url.replace("portal:", "other:", 1).replace(" ", "%20")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_newer_database_of_the_hub_is_refused_in_words(kind: str, make_site: Make) -> None:
    site = make_site(kind)
    change(site.hub_url, "UPDATE alembic_version SET version_num = 'fffffffffff1'")
    done = started(site)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "newer version (fffffffffff1) than this JupyterHub" in done.stderr
    assert "portal restore FILE" in done.stderr and "upgrade-db" not in done.stderr
    told = site.backup(site.backups / "one.tar").stderr
    assert "version fffffffffff1, which this installation does not know" in told
    change(site.hub_url, "UPDATE alembic_version SET version_num = '19c0846f6344'")
    assert "upgrade-db" in started(site).stderr, "an older one is upgraded"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_newer_database_of_the_portal_is_refused_in_words(kind: str, make_site: Make) -> None:
    site = make_site(kind)
    change(site.portal_url, "UPDATE portal_version SET version_num = '9999'")
    before = site.rows()
    done = started(site)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "newer version (9999) than this portal" in done.stderr and "began" not in done.stdout
    done = served(site)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "newer version (9999) than this portal" in done.stderr, done.stderr
    assert site.rows() == before
    told = site.backup(site.backups / "one.tar").stderr
    assert "version 9999, which this installation does not know" in told


def test_a_database_that_is_away_does_not_stop_the_hub(make_site: Make, tmp_path: Path) -> None:
    site = make_site("sqlite")
    site.portal_url = "postgresql://portal@127.0.0.1:1/portal"
    site.write()
    assert "began" in started(site).stdout
