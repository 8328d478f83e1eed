"""``portal backup`` and ``portal restore`` on real databases: nothing is lost, and what comes
after a backup is gone."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import checkout
import pytest
from backup_site import (
    PASSPHRASE,
    REGISTRY_KEY,
    SECRET,
    STORAGE_KEY,
    Site,
    rows_of,
    storage_key,
)
from jupyterhub import dbutil, orm
from postgres import PASSWORD
from sqlalchemy import create_engine, text

from portal.backup.databases import head_of
from portal.gateway.keys import CERTIFICATE, IDENTITY
from portal.store.engine.address import Address

Make = Callable[..., Site]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "one postgresql"])
def test_everything_comes_back_after_the_original_is_destroyed(
    kind: str, make_site: Make, request: pytest.FixtureRequest
) -> None:
    site = make_site(kind)
    before = site.rows()
    assert len(before["portal.audit"]) == 50 and len(before["hub.users"]) == 1
    empty = {table for table, rows in before.items() if not rows and table.startswith("portal.")}
    of_hub = {f"portal.{table}" for table in orm.Base.metadata.tables}  # both in one database
    assert empty <= of_hub, "the site has a row in each of the portal's tables"
    target = site.backups / "one.tar"
    done = site.backup(target)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in site.backups.iterdir()] == ["one.tar"]
    raw = target.read_bytes()
    for secret in (SECRET, b"hunter2", b"nvcr-password", REGISTRY_KEY, PASSPHRASE.encode()):
        assert secret not in raw
    site.destroy()
    if kind != "sqlite":
        server = request.getfixturevalue("postgres")
        for url in {site.hub_url, site.portal_url}:
            name = url.rpartition("/")[2]
            server.sql(f"DROP DATABASE {name}")
            server.sql(f"CREATE DATABASE {name}")
    done = site.restore(target)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert PASSWORD not in done.stdout
    assert site.rows() == before
    assert storage_key(site.portal_url, site.state / "registry-key") == STORAGE_KEY
    for path, (content, mode) in site.files.items():
        assert path.read_bytes() == content
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert not [path for path in site.place.rglob("*.restore-*")]
    assert not [path for path in site.place.rglob("*.before-*")]


def test_without_a_passphrase_secrets_are_left_out_and_named(site: Site) -> None:
    target = site.backups / "one.tar"
    done = site.backup(target, sealed=False)
    assert done.returncode == 0, done.stderr
    assert "It has no secrets" in done.stdout
    for name in ("cookie-secret", "registry-key", "registries/nvcr", "secrets.env"):
        assert f"{name}: it is a secret, and there is no passphrase" in done.stderr
    assert SECRET not in target.read_bytes()
    (site.state / "cookie-secret").write_bytes(b"this machine's")
    done = site.restore(target, sealed=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (site.state / "cookie-secret").read_bytes() == b"this machine's"


def test_a_dry_run_changes_nothing(site: Site) -> None:
    target = site.backups / "one.tar"
    site.backup(target)
    (site.state / "cookie-secret").unlink()
    before = {path: path.stat().st_mtime_ns for path in site.place.rglob("*") if path.is_file()}
    done = site.restore(target, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{site.state}/cookie-secret is new" in done.stdout
    assert f"{site.config} is replaced" in done.stdout
    assert f"hub: SQLite file {site.state}/hub.sqlite" in done.stdout
    after = {path: path.stat().st_mtime_ns for path in site.place.rglob("*") if path.is_file()}
    assert after == before


def test_the_manifest_names_what_it_has_and_no_password(make_site: Make) -> None:
    site = make_site("postgresql")
    target = site.backups / "one.tar"
    site.backup(target)
    with tarfile.open(target) as tar:
        file = tar.extractfile("manifest.json")
        assert file is not None
        manifest = json.load(file)
    assert PASSWORD not in json.dumps(manifest) and "s3cret" not in json.dumps(manifest)
    assert [list(database["roles"]) for database in manifest["databases"]] == [["hub"], ["portal"]]
    assert manifest["portal"] and manifest["made_at"].endswith("+00:00")


def test_what_only_the_running_hub_knows_is_kept(site: Site) -> None:
    """Folders that its variables name; a unit is read in tests/unit/backup."""
    more, gateway = site.place / "more", site.place / "gateway"
    for path in (more / "90-own.py", gateway / IDENTITY, gateway / CERTIFICATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text("# of the site\n")
    hub = site.place / "jupyterhub"
    hub.write_text("import time; print('ready', flush=True); time.sleep(60)")
    env = {"PORTAL_CONFIG_D": str(more), "PORTAL_GATEWAY_STATE": str(gateway)}
    words = [sys.executable, hub, "-f", site.config]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env, cwd=site.place) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        done = site.backup(site.backups / "one.tar")
        process.kill()
    assert (done.returncode, done.stderr) == (0, "")
    with tarfile.open(site.backups / "one.tar") as tar:
        kept = set(tar.getnames())
    assert f"files{more}/90-own.py" in kept
    assert {f"files{gateway}/{name}.sealed" for name in (IDENTITY, CERTIFICATE)} <= kept


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_the_hubs_account_backs_up_and_root_restores(make_site: Make) -> None:
    """Each file has its owner again; what the account cannot read is named."""
    with tempfile.TemporaryDirectory(prefix="pt-", dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        site = make_site("sqlite", place=place)
        account = pwd.getpwnam("nobody")
        for path in (place, *place.rglob("*")):
            if path.name not in ("etc", "secrets.env"):
                os.chown(path, account.pw_uid, account.pw_gid)
        target = site.backups / "one.tar"
        words = ["backup", f"--config={site.config}", f"--passphrase-file={site.passphrase_file}"]
        done = subprocess.run(
            [sys.executable, "-m", "portal", *words, target], cwd=place, user=account.pw_uid,
            group=account.pw_gid, extra_groups=[], capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": str(checkout.ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"Not in the backup: {site.etc}/secrets.env: Permission denied.\n"
        owners = {path: path.stat().st_uid for path in [*site.files, site.state / "hub.sqlite"]}
        site.destroy()
        done = site.restore(target)
        assert (done.returncode, done.stderr) == (0, "")
        owners.pop(site.etc / "secrets.env")
        assert {path: path.stat().st_uid for path in owners} == owners
        assert site.etc.stat().st_uid == 0 and site.state.stat().st_uid == account.pw_uid


def test_only_the_newest_are_kept(site: Site) -> None:
    other = site.backups / "mine.tar"
    other.touch()
    for day in range(1, 5):
        (site.backups / f"portal-backup-2026-01-0{day}T000000Z.tar").touch()
    done = site.backup(site.backups, "--keep=2")
    assert (done.returncode, done.stderr) == (0, "")
    names = sorted(path.name for path in site.backups.glob("portal-*"))
    assert len(names) == 2 and names[0] == "portal-backup-2026-01-04T000000Z.tar"
    assert names[1] > "portal-backup-2026-11"
    assert other.exists()
    assert site.restore(site.backups / names[1]).returncode == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_older_schema_is_upgraded(kind: str, make_site: Make) -> None:
    site = make_site(kind)
    target = site.backups / "old.tar"
    script = (Path(__file__).parents[1] / f"store/version_0018.{kind}.sql").read_text()
    script += "INSERT INTO announcements VALUES (7, 'Hello', 'info', 'grace', 1, 2, 3);"
    address = Address.read(site.portal_url)
    if address.path is not None:
        address.path.unlink()
        address.path.touch(0o600)
    engine = address.engine(0, 1)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        if address.path is None:
            driver.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public;")
        (driver.executescript if address.path else driver.execute)(script)
        driver.commit()
    engine.dispose()
    hub_downgraded(site.hub_url)
    assert site.backup(target).returncode == 0
    done = site.restore(target)
    assert (done.returncode, done.stderr) == (0, "")
    for role in ("hub", "portal"):
        assert f"upgraded to this version's schema ({role})" in done.stdout
    rows = rows_of(site.portal_url)["announcements"]
    assert [row[:2] for row in rows] == [(7, "Hello")]
    hub = rows_of(site.hub_url)
    assert hub["alembic_version"] == [(head_of("hub"),)] and len(hub["users"]) == 1
    status = site.portal("database", "status", f"--config={site.config}")
    assert (status.returncode, status.stderr) == (0, ""), status.stdout


def hub_downgraded(url: str) -> None:
    """Bring the Hub's tables to the version before this JupyterHub's."""
    with tempfile.TemporaryDirectory() as folder:
        ini = f"{folder}/alembic.ini"
        dbutil.write_alembic_ini(ini, url.replace("postgresql://", "postgresql+psycopg://"))
        done = checkout.run(sys.executable, "-m", "alembic", "-c", ini, "downgrade", "-1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_came_after_the_backup_is_gone(kind: str, make_site: Make) -> None:
    """Tables of a newer portal too, so that a migration can make them again."""
    site = make_site(kind)
    target = site.backups / "one.tar"
    before = site.rows()
    assert site.backup(target).returncode == 0
    address = Address.read(site.portal_url)
    engine = create_engine(address.url if address.path is None else site.portal_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE newer (id INTEGER)"))
        connection.execute(text("INSERT INTO newer VALUES (1)"))
    engine.dispose()
    assert site.restore(target).returncode == 0
    assert site.rows() == before


def test_the_commands_of_the_page_and_of_the_unit_work(site: Site) -> None:
    """As they stand there, with the places of this site."""
    page = (checkout.ROOT / "docs/how-to/back-up.md").read_text()
    unit = checkout.ROOT / "deploy/systemd/data-scientist-portal-backup.service"
    lines = re.findall(r"^(?:sudo -u portal )?(?:/opt/\S+/bin/)?portal (.*)$", page, re.M)
    of_unit = re.findall(r"^ExecStart=\S+/bin/portal (.*)$", unit.read_text(), re.M)
    lines[1:1] = of_unit
    assert [line.split()[0] for line in lines] == ["backup", "backup", "restore", "restore"]
    (site.place / "passphrase").rename(site.place / "credential")
    before = site.rows()
    for line in lines:
        words = line.replace("/etc/data-scientist-portal/jupyterhub_config.py", str(site.config))
        words = words.replace("/var/backups/data-scientist-portal", str(site.backups))
        words = words.replace("%d/passphrase", f"{site.place}/credential")
        newest = max(site.backups.iterdir(), default=None)
        if "restore" in words:
            site.state.joinpath("hub.sqlite").unlink()
            words = words.replace("FILE", f"--passphrase-file={site.place}/credential {newest}")
        done = site.portal(*words.split())
        assert done.returncode == 0, done
        if "--dry-run" in words:
            assert not (site.state / "hub.sqlite").exists()
            shutil.copy(site.state / "portal.sqlite", site.state / "hub.sqlite")
        time.sleep(1.1)  # the name of a backup has its second
    after = site.rows()
    # The second backup, which was restored, has the entry of the first.
    assert len(after["portal.audit"]) == len(before["portal.audit"]) + 1
    moved = {
        name: after[name] for name in ("portal.audit", "portal.sqlite_sequence") if name in after
    }
    assert after == before | moved


def test_the_audit_log_has_the_outcome_of_each_backup(site: Site) -> None:
    """Where the metrics of the service read it."""
    target = site.backups / "one.tar"
    before = site.rows()["portal.audit"]
    assert site.backup(target).returncode == 0
    again = site.backup(target)
    assert again.returncode == 1
    new = [row for row in site.rows()["portal.audit"] if row not in before]
    outcomes = {value for row in new for value in row if value in ("done", "failed")}
    assert len(new) == 2 and outcomes == {"done", "failed"}
    assert all("back-up" in row and str(target) in row for row in new)
    assert any("exists already" in str(value) for row in new for value in row)
