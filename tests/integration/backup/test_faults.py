"""Faults of backups and restores: each is a sentence, and nothing half-made stays."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import checkout
import pytest
from backup_site import PASSPHRASE, Site, entry
from postgres import PostgreSQL

from portal.backup.archive import Reader
from portal.backup.restoring import Restore
from portal.backup.sealing import Seal
from portal.store import Store

Make = Callable[..., Site]


def tree(place: Path) -> dict[str, bytes]:
    """Return the files below ``place`` with their contents, without SQLite's shared memory."""
    return {
        str(path): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


def sentence(done: Any) -> str:
    """Return what a command that failed says: lines without a traceback."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().endswith("."), done.stderr
    return str(done.stderr)


# -- while others write --------------------------------------------------------------------------

_WRITER = """
import sys, sqlite3, time
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
connection.execute("PRAGMA wal_autocheckpoint = 0")  # what is written stays in the log
connection.execute("CREATE TABLE IF NOT EXISTS debit (id INTEGER PRIMARY KEY, t TEXT)")
connection.execute("CREATE TABLE IF NOT EXISTS credit (id INTEGER PRIMARY KEY, t TEXT)")
print("ready", flush=True)
while True:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO debit (t) VALUES (hex(randomblob(3000)))")
    connection.execute("INSERT INTO credit (t) SELECT t FROM debit ORDER BY id DESC LIMIT 1")
    connection.execute("COMMIT")
    time.sleep(0.002)
"""


@contextmanager
def writing(*argv: str) -> Iterator[None]:
    """Run a program that writes until the end."""
    with subprocess.Popen([sys.executable, "-c", *argv], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        try:
            yield
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_backup_during_many_writes_is_one_state(site: Site, mode: str) -> None:
    targets = [site.backups / f"{number}.tar" for number in range(2)]
    with writing(_WRITER, str(site.state / "hub.sqlite"), mode):
        for target in targets:
            least = len(site.rows_of_hub()["debit"])
            done = site.backup(target)
            assert done.returncode == 0, done.stderr
    counts = []
    for target in targets:
        assert site.restore(target).returncode == 0
        rows = site.rows()
        assert [row[1] for row in rows["hub.debit"]] == [row[1] for row in rows["hub.credit"]]
        counts.append(len(rows["hub.debit"]))
    assert counts[1] > counts[0] > 0
    assert counts[1] >= least, "what was committed before is in it"


_PG_WRITER = """
import sys, psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    for name in ("debit", "credit"):
        connection.execute(f"CREATE TABLE {name} (id serial PRIMARY KEY, t TEXT)")
    print("ready", flush=True)
    while True:
        with connection.transaction():
            connection.execute("INSERT INTO debit (t) VALUES (repeat(random()::text, 99))")
            connection.execute("INSERT INTO credit (t) SELECT t FROM debit WHERE id = "
                               "(SELECT max(id) FROM debit)")
"""


def test_a_backup_of_postgresql_during_writes_is_one_state(make_site: Make) -> None:
    site = make_site("postgresql")
    target = site.backups / "one.tar"
    with writing(_PG_WRITER, site.hub_url.replace("+", "%20").replace(" ", "%20")):
        assert site.backup(target).returncode == 0
        time.sleep(0.2)
        told = sentence(site.restore(target))
    assert "connections to PostgreSQL at" in told and "stop the Hub" in told
    later = len(site.rows()["hub.debit"])
    assert site.restore(target).returncode == 0
    rows = site.rows()
    assert [row[1] for row in rows["hub.debit"]] == [row[1] for row in rows["hub.credit"]]
    assert 0 < len(rows["hub.debit"]) < later


# -- damaged, changed and foreign files ----------------------------------------------------------


def test_a_torn_file_restores_nothing(site: Site, backup: Path) -> None:
    whole = backup.read_bytes()
    before = tree(site.state) | tree(site.etc)
    torn = site.backups / "torn.tar"
    end = whole.rstrip(b"\0")  # what follows is tar's padding
    offsets = [0, 1, 511, 512, 600, 4096, len(end) // 3, len(end) // 2, len(end) - 1]
    for offset in offsets:
        torn.write_bytes(whole[:offset])
        told = sentence(site.restore(torn, sealed=False) if offset < 4096 else site.restore(torn))
        assert "damaged or not complete" in told or "is no backup" in told, offset
    assert tree(site.state) | tree(site.etc) == before


def test_one_wrong_byte_is_found_wherever_it_is(site: Site, backup: Path) -> None:
    """In the content of each member; headers are read by name alone."""
    with tarfile.open(backup) as tar:
        entries = [(member.name, member.offset_data, member.size) for member in tar.getmembers()]
    assert len(entries) > 10
    whole = backup.read_bytes()
    for name, offset, size in entries:
        place = offset + size // 2
        backup.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Exception, match=r"damaged|passphrase"):
            reader = Reader(backup)
            try:
                reader.verify(seal_of(reader.manifest.salt))
            finally:
                reader.close()
        assert name


@functools.cache
def seal_of(salt: str) -> Seal:
    return Seal(PASSPHRASE, bytes.fromhex(salt))


def altered(backup: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write the backup with another manifest, whose sum is right."""
    with tarfile.open(backup) as old, tarfile.open(target, "w") as new:
        for member in old.getmembers():
            file = old.extractfile(member)
            assert file is not None
            data = file.read()
            if member.name == "manifest.json":
                manifest = json.loads(data)
                change(manifest)
                data = text = json.dumps(manifest).encode()
            elif member.name == "manifest.sha256":
                data = hashlib.sha256(text).hexdigest().encode()
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    target.chmod(0o600)


def test_a_changed_place_is_noticed_by_the_passphrase(site: Site, backup: Path) -> None:
    """The place is the test's own: a portal that is broken must not harm the machine."""
    target, planted = site.backups / "changed.tar", site.place / "planted"

    def change(manifest: dict[str, Any]) -> None:
        manifest["files"][0]["path"] = str(planted)

    altered(backup, target, change)
    assert "is damaged" in sentence(site.restore(target))
    assert not planted.exists()


@pytest.mark.parametrize("path", ["relative", "{place}/etc/../x", "{place}//x"])
def test_a_place_must_be_absolute(site: Site, backup: Path, path: str) -> None:
    target = site.backups / "changed.tar"
    path = path.format(place=site.place)
    altered(backup, target, lambda manifest: manifest["files"][0].update(path=path))
    assert "is damaged" in sentence(site.restore(target, "--without-secrets", sealed=False))


def test_newer_formats_and_tables_are_refused(site: Site, backup: Path) -> None:
    before = tree(site.state)
    target = site.backups / "newer.tar"
    altered(backup, target, lambda manifest: manifest.update(format=2))
    assert "made by a newer version" in sentence(site.restore(target))

    def newer(manifest: dict[str, Any]) -> None:
        for database in manifest["databases"]:
            if "portal" in database["roles"]:
                database["roles"]["portal"] = "9999"

    altered(backup, target, newer)
    told = sentence(site.restore(target, "--without-secrets", sealed=False))
    assert "newer than this installation" in told and "9999" in told
    assert tree(site.state) == before


def test_a_file_that_others_can_change_is_not_trusted(site: Site, backup: Path) -> None:
    backup.chmod(0o620)
    told = sentence(site.restore(backup, "--without-secrets", sealed=False))
    assert "Others can change" in told
    assert site.restore(backup).returncode == 0, "its passphrase tells that nobody has"


@pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 20480])
def test_other_files_are_no_backups(site: Site, content: bytes) -> None:
    file = site.backups / "x.tar"
    file.write_bytes(content)
    told = sentence(site.restore(file))
    assert "is no backup" in told or "damaged" in told
    with tarfile.open(file, "w") as tar:
        tar.add(site.config, "x")
    assert "is no backup of the portal" in sentence(site.restore(file))
    assert "cannot be read" in sentence(site.restore(site.backups / "none.tar"))


# -- passphrases ---------------------------------------------------------------------------------


def test_wrong_passphrases(site: Site, backup: Path) -> None:
    before = tree(site.state)
    site.passphrase_file.write_text("another long passphrase")
    assert "not the one that this backup was made with" in sentence(site.restore(backup))
    assert "--passphrase-file=FILE" in sentence(site.restore(backup, sealed=False))
    for content, mode, words in (
        ("short", 0o600, "at least 12 characters"),
        ("two long lines\nof a passphrase", 0o600, "on one line"),
        ("correct horse battery staple", 0o644, "chmod 0600"),
    ):
        site.passphrase_file.write_text(content)
        site.passphrase_file.chmod(mode)
        assert words in sentence(site.restore(backup))
        assert words in sentence(site.backup(site.backups / "two.tar"))
    site.passphrase_file.unlink()
    assert "cannot be read" in sentence(site.backup(site.backups / "two.tar"))
    assert tree(site.state) == before
    assert os.listdir(site.backups) == ["one.tar"]  # noqa: PTH208


# -- disks, folders, other processes -------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("kib", [60, 200, 500])
def test_a_full_disk_leaves_nothing(site: Site, kib: int) -> None:
    words = (
        f"mount -t tmpfs -o size={kib}k none {site.backups} && "
        f"{sys.executable} -m portal backup --config={site.config} "
        f"--passphrase-file={site.passphrase_file} {site.backups}; echo status $?; "
        f"ls -A {site.backups}"
    )
    done = checkout.run("unshare", "--mount", "--propagation=private", "sh", "-c", words)
    assert done.stdout.endswith("status 1\n"), done.stdout + done.stderr
    assert "has no space left" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_restore_to_a_full_disk_changes_nothing(site: Site, backup: Path) -> None:
    words = (
        f"mount -t tmpfs -o size=900k none {site.place}/disk && "
        f"cp -a {site.state}/. {site.place}/disk && mount --move {site.place}/disk {site.state} && "
        f"head -c 9M /dev/zero > {site.state}/filler; rm {site.state}/filler; "
        f"head -c 500k /dev/zero > {site.state}/filler; "
        f"ls -A {site.state} | md5sum; cat {site.state}/*.sqlite | md5sum; "
        f"{sys.executable} -m portal restore --passphrase-file={site.passphrase_file} {backup} "
        f"> /dev/null; ls -A {site.state} | md5sum; cat {site.state}/*.sqlite | md5sum"
    )
    (site.place / "disk").mkdir()
    done = checkout.run("unshare", "--mount", "--propagation=private", "sh", "-c", words)
    assert "no space left for the restore: nothing was changed" in done.stderr, done
    lines = done.stdout.split()
    assert lines[:4] == lines[4:], done.stdout


def test_folders_that_cannot_be_written(site: Site, backup: Path) -> None:
    assert "exists already" in sentence(site.backup(backup))
    assert "cannot be opened" in sentence(site.backup(site.place / "none/x.tar"))
    words = f'mount --bind -o ro {site.backups} {site.backups} && exec "$@"'
    done = checkout.run(
        "unshare", "--mount", "--propagation=private", "sh", "-c", words, "sh", sys.executable,
        "-m", "portal", "backup", f"--config={site.config}", site.backups,
    )  # fmt: skip
    assert "Read-only file system. Nothing was left there." in sentence(done)
    assert "--keep needs a folder" in sentence(site.backup(backup, "--keep=1"))
    assert site.backup(site.backups, "--keep=0").returncode == 2


def test_two_backups_at_once(site: Site) -> None:
    descriptor = os.open(site.backups, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert "Another backup is being made" in sentence(site.backup(site.backups / "two.tar"))
    os.close(descriptor)
    words = [sys.executable, "-m", "portal", "backup", f"--config={site.config}"]
    both = [
        subprocess.Popen([*words, site.backups / f"{number}.tar"], stderr=subprocess.PIPE)
        for number in range(2)
    ]
    errors = [process.communicate()[1] for process in both]
    good = [number for number, process in enumerate(both) if process.returncode == 0]
    assert good, errors
    names = sorted(path.name for path in site.backups.iterdir())
    assert names == [f"{number}.tar" for number in good]
    for number in {0, 1} - {*good}:
        assert b"Another backup is being made" in errors[number]


def test_databases_that_are_away_or_damaged(make_site: Make, own_postgres: PostgreSQL) -> None:
    site = make_site("sqlite")
    hub, target = site.state / "hub.sqlite", site.backups / "one.tar"
    assert site.backup(target).returncode == 0
    data = hub.read_bytes()
    hub.write_bytes(data[:8192] + b"x" * 4096 + data[12288:])
    assert "damaged" in sentence(site.backup(site.backups / "two.tar"))
    hub.write_bytes(b"no database")
    assert "cannot be copied" in sentence(site.backup(site.backups / "two.tar"))
    hub.unlink()
    assert "There is no file" in sentence(site.backup(site.backups / "two.tar"))
    assert site.restore(target).returncode == 0
    site.hub_url = own_postgres.url("none")
    site.write()
    told = sentence(site.backup(site.backups / "two.tar"))
    assert "does not exist" in told and "s3cret" not in told
    own_postgres.stop()
    told = sentence(site.backup(site.backups / "two.tar"))
    assert "Connection refused" in told and "s3cret" not in told
    assert os.listdir(site.backups) == ["one.tar"]  # noqa: PTH208
    site.hub_url = "mysql://root:hunter2@x/y"
    site.write()
    told = sentence(site.backup(site.backups / "two.tar"))
    assert "the type 'mysql'" in told and "hunter2" not in told


def test_a_dropped_database_is_named(make_site: Make, postgres: PostgreSQL) -> None:
    site = make_site("postgresql")
    target = site.backups / "one.tar"
    assert site.backup(target).returncode == 0
    name = site.portal_url.rpartition("/")[2]
    postgres.sql(f"DROP DATABASE {name}")
    before = site.rows_of_hub(), tree(site.etc)
    assert "Create it as docs/how-to/database.md describes" in sentence(site.restore(target))
    assert (site.rows_of_hub(), tree(site.etc)) == before


def test_a_wrong_configuration(site: Site) -> None:
    site.config.write_text("1/0")
    assert "ZeroDivisionError" in sentence(site.backup(site.backups / "x.tar"))
    site.config.unlink()
    assert "no such file" in sentence(site.backup(site.backups / "x.tar"))


# -- what runs -----------------------------------------------------------------------------------


def test_nothing_is_restored_while_something_runs(site: Site, backup: Path) -> None:
    before = tree(site.etc)
    copy = site.place / "bin"
    copy.mkdir()
    for name, words in {
        "jupyterhub": ["-f", str(site.config)],
        "portal": ["service", f"--config={site.config}"],
    }.items():
        program = copy / name
        program.write_text("import time; print('ready', flush=True); time.sleep(60)")
        with subprocess.Popen([sys.executable, program, *words], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            told = sentence(site.restore(backup))
            assert f"runs (process {process.pid})" in told and "systemctl stop" in told
            process.kill()

    async def opened() -> None:
        store = Store(url=site.portal_url)
        await store.audit.add_entry(entry(1))
        told = sentence(await asyncio.to_thread(site.restore, backup))
        assert f"Process {os.getpid()} has {site.state}/portal.sqlite open" in told
        await store.close()

    asyncio.run(opened())
    assert tree(site.etc) == before
    assert site.restore(backup).returncode == 0


# -- killed --------------------------------------------------------------------------------------

_STEPS = ("os.rename", "os.remove", "os.chmod", "os.mkdir", "os.rmdir", "sqlite3.connect")


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do ``work`` in a process that is killed before its ``step``-th change of the file system;
    return False if it ended before."""
    child = os.fork()
    if child == 0:
        count = 0

        def watch(event: str, args: tuple[Any, ...]) -> None:
            nonlocal count
            if event in _STEPS:
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(watch)
            work()
        except BaseException:
            os._exit(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def restored(target: Path) -> None:
    reader = Reader(target)
    try:
        restore = Restore(reader, None)
        restore.verify()
        restore.run()
    finally:
        reader.close()


def test_a_restore_that_is_killed_at_any_step_is_done_by_the_next(site: Site) -> None:
    target = site.backups / "one.tar"
    good = site.rows()  # before the audit log's entry of the backup
    assert site.backup(target, sealed=False).returncode == 0
    files = tree(site.etc)
    newer = site.place / "newer"
    asyncio.run(changed(site))
    shutil.copytree(site.state, newer / "state")
    shutil.copytree(site.etc, newer / "etc")
    assert site.rows() != good
    step = 1
    while killed_at(step, lambda: restored(target)):
        assert not killed_at(10**9, lambda: restored(target))
        assert site.rows() == good, step
        assert tree(site.etc) == files, step
        assert not list(site.place.rglob("*.restore-new*")), step
        assert not list(site.place.rglob("*.before-restore*")), step
        shutil.copytree(newer / "state", site.state, dirs_exist_ok=True)
        shutil.copytree(newer / "etc", site.etc, dirs_exist_ok=True)
        step += 1
    assert step > 30


async def changed(site: Site) -> None:
    """Change the site after its backup."""
    store = Store(url=site.portal_url)
    await store.audit.add_entry(entry(99))
    await store.close()
    for path in (site.etc / "environments/a.yaml", site.config):
        path.write_text(path.read_text() + "# later\n")


def test_an_error_in_the_middle_puts_back_what_was_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = site.backups / "one.tar"
    assert site.backup(target, sealed=False).returncode == 0
    asyncio.run(changed(site))
    before = tree(site.etc) | tree(site.state)
    rename, number = Path.rename, 0
    for stop in range(1, 12):
        number = 0

        def failing(path: Path, to: Path) -> Any:
            nonlocal number
            number += 1
            if number == stop:  # noqa: B023
                raise PermissionError(1, "Operation not permitted", str(path))
            return rename(path, to)

        monkeypatch.setattr(Path, "rename", failing)
        with pytest.raises(Exception, match="Nothing was changed"):
            restored(target)
        assert tree(site.etc) | tree(site.state) == before, stop
    monkeypatch.undo()
    restored(target)
    assert tree(site.etc) | tree(site.state) != before


def test_a_backup_that_is_killed_leaves_nothing_after_the_next(site: Site) -> None:
    from portal.backup.inventory import inventory_of
    from portal.backup.making import make
    from portal.doctor.site import Site as Examined

    found = inventory_of(Examined(str(site.config)))
    step = 1
    while killed_at(step, lambda: make(found, site.config, site.backups / "one.tar", "")):
        if (site.backups / "one.tar").exists():  # killed as it cleaned up
            assert Reader(site.backups / "one.tar").manifest
            (site.backups / "one.tar").unlink()
        make(found, site.config, site.backups / "two.tar", "")
        assert os.listdir(site.backups) == ["two.tar"], step  # noqa: PTH208
        (site.backups / "two.tar").unlink()
        step += 1
    assert step > 5


def test_sigterm_leaves_nothing(site: Site) -> None:
    """As systemd stops the unit, while it copies a large database."""
    with writing(_WRITER, str(site.state / "hub.sqlite"), "WAL"):
        time.sleep(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "portal", "backup", f"--config={site.config}", site.backups],
    )
    end = time.monotonic() + 30
    while not list(site.backups.iterdir()):
        assert time.monotonic() < end and process.poll() is None
    process.terminate()
    process.wait(30)
    assert not list(site.backups.glob(".*"))
