"""Fixtures that start real daemons once for the whole run: a demo, or its Slurm alone."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx._transports.default as httpx_transports
import machine
import markers
import migrated
import outcomes
import pytest
import runs
import skips
from postgres import PostgreSQL

import portal.work  # noqa: F401  its tables are in each database
from portal.demo import namespace
from portal.demo.daemons.ports import free_port
from portal.demo.daemons.process import end_child
from portal.demo.home import Home
from portal.demo.running import Running
from portal.store import Store

ROOT = Path(__file__).resolve().parent.parent
_FIRST_START = 900  # seconds; the first one makes the container image


_RECORD = pytest.StashKey[runs.RunRecord]()


def pytest_addoption(parser: pytest.Parser) -> None:
    outcomes.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    # What the demo makes to be looked at is for tests that ask for it.
    os.environ.setdefault("PORTAL_DEMO", "bare")
    gc.disable()  # until all tests are collected: 7 instead of 13 s of CPU
    outcomes.register(config)
    skips.register(config)
    markers.register(config)
    _share_tls_context()
    machine.slowness()  # before a test measures anything
    migrated.share()
    if config.option.collectonly or config.option.help:
        return
    runs.end_on_signals()
    records = Path(shared_cache()) / "test-runs"
    config.stash[_RECORD] = runs.RunRecord(records)
    runs.end_leftovers(records)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    markers.mark(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    runs.end_descendants()
    if record := config.stash.get(_RECORD, None):
        record.remove()


def _share_tls_context() -> None:
    """Share one TLS context among all HTTPX clients of the tests; otherwise each would read the
    machine's certificate authorities again (60 ms of CPU), even for http://."""
    create = httpx_transports.create_ssl_context
    shared = create()

    def create_or_share(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        return shared if verify is True and cert is None else create(verify, cert, trust_env)

    httpx_transports.create_ssl_context = create_or_share


@pytest.fixture(autouse=True)
def umask_kept() -> Iterator[None]:
    """Restore the umask: the Hub's configuration sets one, even if a test only reads it, but files
    of later tests must stay readable to the people of the demo."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Yield a database of this test alone, with its tables."""
    made = Store(url=f"sqlite:///{tmp_path}/portal.sqlite")
    await made.upgrade()
    yield made
    await made.close()


class Demo(Running):
    """Demo started by the tests.

    From ``Running``: ``state``, ``run(argv, user=…, env=…, check=True, input=None)`` inside it,
    and ``tell("stop" | "start" | "kill", piece)`` with the pieces slapd, proxy, hub, munged,
    mariadbd, slurmdbd, slurmctld and each node's name.
    """

    def __init__(self, home: Home, log: Path | None = None) -> None:
        super().__init__(home)
        self.log = log

    @property
    def words(self) -> dict[str, Any]:
        """Content of state.json; fails the test if the demo has died."""
        state = self.state
        assert state is not None, f"the demo has died: {self.output()}"
        return state

    @property
    def url(self) -> str:
        return str(self.words["url"])

    @property
    def people(self) -> bool:
        """True if the people are real accounts (the root form)."""
        return bool(self.words["form"] == "people")

    @property
    def environments(self) -> Path:
        """Directory of the environments' YAML files."""
        return Path(self.words["environments"])

    def user(self, name: str) -> str | None:
        """Return the account that runs ``name``'s commands; None in the one-account form."""
        return name if self.people else None

    def output(self) -> str:
        """Return the demo's output so far."""
        return self.log.read_text() if self.log and self.log.exists() else ""

    def session_logs(self, lines: int = 20) -> str:
        """Return the end of each session's log."""
        logs = sorted((self.home.demo / "sessions").glob("*.log"))
        texts = (path.read_text(errors="replace") for path in logs)  # jobs print what they like
        return "\n".join("\n".join(text.splitlines()[-lines:]) for text in texts)

    def stop_slurmctld(self) -> None:
        self.control("stop", "slurmctld")

    def start_slurmctld(self) -> None:
        self.control("start", "slurmctld")


def reachable(path: Path) -> bool:
    """Return True if every account can enter ``path``."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def shared_cache() -> str:
    """Return the cache of slow builds (Apptainer, images, the proxy) that all runs share."""
    return str(Home.find().cache)


@contextlib.contextmanager
def a_home() -> Iterator[Path]:
    """Yield a state directory with a short path that all accounts can enter; deleted afterwards."""
    place = Path(tempfile.mkdtemp(prefix="pt-", dir="/var/tmp"))
    place.chmod(0o755)
    if record := os.environ.get(runs.MARK):
        with Path(record).open("a") as homes:  # cleaned by a later run if this one is killed
            homes.write(f"{place}\n")
    try:
        yield place
    finally:
        shutil.rmtree(place)


def portal_demo(*options: str) -> list[str]:
    """Return the command line of ``portal demo``."""
    return [sys.executable, "-m", "portal", "demo", *options]


def demo_place() -> Path:
    """Return the directory to start ``portal demo`` in: the checkout, so that its source runs; if
    other accounts cannot read that, / for the installed portal, which `make test` keeps equal."""
    return ROOT if reachable(ROOT) or os.geteuid() != 0 else Path("/")


@contextlib.contextmanager
def started_demo(
    *options: str, prefix: tuple[str, ...] = (), place: Path, prepared: bool = True
) -> Iterator[Demo]:
    """Run a demo with these options in the state directory ``place`` while the block runs.

    ``prepared``: use the results of earlier demos in the cache."""
    options += ("--prepared",) if prepared else ()
    log = place / "output"
    env = {**os.environ, "PORTAL_CACHE": shared_cache(), "PORTAL_HOME": str(place)}
    env.pop("PORTAL_PORT", None)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*prefix, *portal_demo(*options)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=demo_place(),
            start_new_session=True,
            preexec_fn=runs.ends_with_parent,
        )
    demo = Demo(Home(place, Path(env["PORTAL_CACHE"])), log)
    try:
        end = time.monotonic() + machine.patience(_FIRST_START)
        while not ((state := demo.state) and state["ready"]):
            assert process.poll() is None, f"portal demo ended:\n{demo.output()}"
            assert time.monotonic() < end, f"portal demo is not ready:\n{demo.output()}"
            time.sleep(0.1)
        yield demo
    finally:
        end_child(process, 180)
        _keep_log_of_lost_pieces(demo)


def _keep_log_of_lost_pieces(demo: Demo) -> None:
    """Keep the demo's logs in build/ if a piece of it ended that no test has ended: all that
    follows fails then, and says nothing of the cause."""
    if "exited unexpectedly" in demo.output():
        kept = ROOT / "build" / f"lost-{os.getpid()}-{time.strftime('%H%M%S')}"
        shutil.copytree(demo.home.demo / "log", kept, symlinks=True, dirs_exist_ok=True)
        (kept / "output").write_text(demo.output())


def host_of(place: Path) -> tuple[str, ...]:
    """Return a command prefix that starts a demo in ``place`` on a host with its own /etc, a copy
    in ``place``/host/etc whose accounts a test may change; empty if the kernel refuses that."""
    if not namespace.allowed():
        return ()
    host = place / "host"
    host.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", "/etc", host], check=True)
    script = 'mount --bind "$0" /etc && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, f"{host}/etc")


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    """Yield the only whole demo of the run, in the root form if the tests run as root.

    PORTAL_TEST_DEMO names the state directory of a demo that is already running, to save its start.
    """
    running = os.environ.get("PORTAL_TEST_DEMO")
    if running:
        yield Demo(Home.find(running))
        return
    with (
        a_home() as place,
        started_demo(f"--port={free_port()}", prefix=host_of(place), place=place) as demo,
    ):
        yield demo


@pytest.fixture(scope="session")
def slurm_cluster(request: pytest.FixtureRequest) -> Iterator[Demo]:
    """Yield a private Slurm: the demo's own if this run has or will have one, else Slurm alone."""
    if any("demo" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield request.getfixturevalue("demo")
        return
    with a_home() as place, started_demo("--only=slurm", place=place) as demo:
        yield demo


def _postgresql() -> Iterator[PostgreSQL]:
    server = PostgreSQL()
    try:
        server.start()
        yield server
    finally:
        server.end()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSQL]:
    """Yield a private PostgreSQL for the run; a test that stops it starts it again."""
    yield from _postgresql()


@pytest.fixture
def own_postgres() -> Iterator[PostgreSQL]:
    """Yield a private PostgreSQL that the test may stop."""
    yield from _postgresql()


@pytest.fixture
def postgres_url(postgres: PostgreSQL) -> str:
    """Return the URL (for ``Store.url``) of a new, empty database."""
    return postgres.new()
