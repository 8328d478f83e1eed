"""Versions of the portal beside each other, and their Hubs on the demo: its proxy, its gateway and
its Slurm stay while one Hub takes the place of the other."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import checkout
import httpx
from hub_client import wait_until
from processes import mark

from portal.demo.daemons.process import end_child, prefer

_NEWER = '''"""A table of the next version."""

from portal.store.migrations.columns import create_table, words

revision = "9001"
down_revision = "{head}"


def upgrade() -> None:
    create_table("of_the_next_version", *words("name"), key=["name"])
'''


def source_of(commit: str, place: Path) -> Path:
    """Write the portal's source as of ``commit`` into a folder below ``place``.

    A clone without history has no earlier commit: then its release is taken from ``dist/``, where
    ``make release`` or a download has put it.
    """
    root = place / commit
    root.mkdir()
    words = 'git archive "$1" | tar --extract --directory="$2"'
    done = checkout.run("sh", "-c", words, "sh", commit, root)
    if not any(root.iterdir()):
        release = checkout.ROOT / f"dist/data_scientist_portal-{commit.removeprefix('v')}.tar.gz"
        assert release.is_file(), (
            f"{commit} is not in this clone: {done.stderr.strip()}. Fetch the history (git fetch "
            f"--unshallow --tags), or put the release's sdist there: {release}"
        )
        words = 'tar --extract --strip-components=1 --file="$1" --directory="$2"'
        checkout.run("sh", "-c", words, "sh", release, root).check_returncode()
    if not (root / "static/vendor").exists():  # from npm, and not in the repository
        (root / "static/vendor").symlink_to(checkout.ROOT / "static/vendor")
    return root


def next_version(place: Path, head: str) -> Path:
    """Write this source below ``place`` as a later version: another number, and tables that this
    one does not know."""
    root = place / "next"
    root.mkdir()
    for name in ("portal", "spawners"):
        shutil.copytree(checkout.ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("deploy", "templates", "static", "kernels", "pyproject.toml"):
        (root / name).symlink_to(checkout.ROOT / name)
    package = root / "portal/__init__.py"
    lines = package.read_text().splitlines()
    package.write_text(
        "\n".join('__version__ = "9.0.0"' if "__version__" in x else x for x in lines)
    )
    migration = root / "portal/store/migrations/versions/v9001_next.py"
    migration.write_text(_NEWER.format(head=head))
    return root


class InstalledHub:
    """The demo's Hub, started from the source in ``root``. The demo's own must be stopped."""

    def __init__(self, demo: Any, variables: dict[str, str], root: Path, log: Path) -> None:
        self.log, self._demo = log, demo
        self._before = len(log.read_text()) if log.exists() else 0  # of an earlier start
        folder = demo.words["hub_directory"]
        env = variables | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = ["env", f"--chdir={folder}", sys.executable, "-m", "jupyterhub", "-f"]
        argv.append(f"{root}/deploy/demo/jupyterhub_config.py")
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                demo.command(argv, "portal" if demo.people else None, env),
                stdout=out, stderr=out, cwd="/", start_new_session=True,
            )  # fmt: skip
        prefer(self.process.pid)  # as the demo's own

    def answers(self) -> bool:
        """Return True once the Hub and its service answer, and all of it has started: before, its
        end by SIGTERM is none in order. Fail if the Hub has ended."""
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        begun = self.log.read_text()[self._before :]
        return "JupyterHub is now running" in begun and pages_answer(self._demo.url)

    def refuses(self) -> str:
        """Wait for the end of a Hub that does not start; return its log."""
        wait_until("the Hub has ended", lambda: self.process.poll() is not None)
        assert self.process.returncode == 1
        return self.log.read_text()

    def stop(self) -> None:
        """Stop it as systemd does."""
        end_child(self.process, 60)


def pages_answer(url: str) -> bool:
    """Return True if the Hub's pages and the service's are there."""
    with contextlib.suppress(httpx.HTTPError):
        login = httpx.get(f"{url}/hub/login", timeout=5).status_code
        service = httpx.get(f"{url}/services/portal/api/v1/cluster", timeout=5).status_code
        return (login, service) == (200, 403)  # nobody has logged in
    return False


def hub_variables(demo: Any) -> dict[str, str]:
    """Return the variables of the demo's running Hub."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"jupyterhub" not in words:
                continue
            text = (process / "environ").read_text()
            if mark(demo) in text:
                return dict(line.split("=", 1) for line in text.split("\0") if line)
    raise AssertionError("the demo has no Hub")


class Away(threading.Thread):
    """Measurement of the longest time in which the pages did not answer."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.longest, self._url, self._over = 0.0, url, threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(0.1):
            if pages_answer(self._url):
                now = time.monotonic()
                self.longest, last = max(self.longest, now - last), now

    def __enter__(self) -> Away:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(30)


@contextlib.contextmanager
def without_own_hub(demo: Any) -> Iterator[dict[str, str]]:
    """Stop the demo's Hub, and put its databases aside; yield its variables. At the end the demo
    has both again."""
    variables = hub_variables(demo)
    folder = Path(demo.words["hub_directory"])
    demo.control("stop", "hub")
    aside = folder / "aside"
    aside.mkdir(mode=0o700)
    try:
        _move(folder, aside)
        yield variables
    finally:
        for path in _databases(folder):
            path.unlink()
        _move(aside, folder)
        aside.rmdir()
        demo.control("start", "hub")


def _databases(folder: Path) -> list[Path]:
    return [path for name in ("jupyterhub", "portal") for path in folder.glob(f"{name}.sqlite*")]


def _move(source: Path, target: Path) -> None:
    for path in _databases(source):
        path.rename(target / path.name)
