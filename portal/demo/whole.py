"""A demo from start to end: all of its pieces, in the order of their dependencies."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import portal.work  # noqa: F401  adds the features
from portal.features import loaded

from ..paths import data_path
from . import namespace
from .daemons.hub import DemoHub
from .daemons.ports import Ports
from .daemons.process import MARK, end_all, leftovers, start_time
from .daemons.slapd import Slapd
from .daemons.slurm import PrivateSlurm
from .daemons.supervisor import Supervisor
from .environments.apptainer import apptainer_environment, ensure_apptainer
from .environments.environments import ensure_environments
from .home import Home
from .people import Account, People, myself
from .prepared import Prepared, source_digest
from .service_api import ServiceApi
from .showcase.showcase import Showcase
from .tested import await_tests

Say = Callable[[str], None]


class WholeDemo:
    """Demo in ``home``, run by this process.

    ``real_accounts``: the root form. ``only``: "all", or "slurm" for Slurm alone. ``say`` gets a
    sentence for each step. ``prepared``: start from the cached results of earlier starts. ``bare``:
    without the showcase. Only one process at a time may use a home.
    """

    def __init__(
        self,
        home: Home,
        port: int,
        only: str,
        real_accounts: bool,
        say: Say,
        *,
        prepared: bool = False,
        bare: bool = False,
    ) -> None:
        self.home, self.only, self.say = home, only, say
        self.port = port
        self.real_accounts = real_accounts
        self.deploy = data_path("deploy")
        self.people = People.read(self.deploy / "demo" / "people.toml")
        self.ports = Ports(home.demo / "ports.json")
        self.prepared = Prepared(home.cache) if prepared else None
        self.slurm = PrivateSlurm(
            home,
            self.people,
            self.ports,
            self.deploy,
            real_accounts=real_accounts,
            prepared=self.prepared,
        )
        self.supervisor = Supervisor(home.run / "control", say)
        self.showcase = (
            None
            if bare or only != "all"
            else Showcase(home, self.deploy, say, simulated_gpus=self.slurm.gpus.simulated)
        )
        self.state: dict[str, Any] = {}

    def run(self, ready: Callable[[WholeDemo], None]) -> None:
        """Start, call ``ready``, serve until SIGINT, SIGTERM or SIGHUP, then stop everything.

        Raises PortalError if a piece does not start, after the others have been stopped.
        """
        _interruptible()
        # All processes started from here on can be found by this mark.
        os.environ[MARK] = str(self.home.root)
        os.umask(0o022)
        try:
            self._enter()
            self._start()
            self._tell(ready=True)
            ready(self)
            self.supervisor.serve()
        except KeyboardInterrupt:
            pass
        finally:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            self._end()

    def _enter(self) -> None:
        self.slurm.prepare()
        if not self.slurm.loopback_only:
            self.say(
                "this machine's name resolves to a network address, so Slurm's ports are reachable "
                "from the network; munge protects them"
            )
        if self.real_accounts:
            namespace.enter(self.home, self.people, self.deploy)
        self._tell(
            pid=os.getpid(),
            started=start_time(os.getpid()),
            ready=False,
            only=self.only,
            url=f"http://localhost:{self.port}",
            bind_url=f"http://127.0.0.1:{self.port}",
            form="people" if self.real_accounts else "one account",
            account=myself().name,
            people=list(self.people.persons) if self.real_accounts else [],
            homes=str(self.home.people),
            simulated_gpus=self.slurm.gpus.simulated,
            slurm_conf=self.slurm.env["SLURM_CONF"],
            slurm_address=self.slurm.address,
            commands_in_containers=self.slurm.commands_for_containers(),
        )

    def _start(self) -> None:
        if self.only == "slurm":
            self._start_slurm()
            self.slurm.wait_for_nodes()
            return
        account = self.people.services["portal"] if self.real_accounts else myself()
        state_file = self.home.run / "state.json"
        hub = DemoHub(self.home, self.deploy, self.ports, self.port, account, state_file)
        images = _Images(self.home, account.uid == 0, self.say)
        images.start()
        self._start_directory(account.uid)
        self._start_slurm()
        paths = images.result()
        self._give_folders(Path(paths["environments"]), account)
        if self.showcase:
            self._tell(**self.showcase.lay())
        self._tell(
            **paths,
            images=str(self.home.images),
            node_cache=str(self.home.node_cache),
            exchange=str(self.home.exchange),
            images_account=self._images_account.name if self.real_accounts else "",
            kept_environments=str(hub.place / "environments"),
            hub_url=f"http://127.0.0.1:{self.ports['hub']}",
            proxy_api_url=f"http://127.0.0.1:{self.ports['proxy-api']}",
            hub_directory=str(hub.place),
            gateway_url=f"http://127.0.0.1:{self.ports['gateway']}",
            session_logs=str(self.home.demo / "sessions"),
            image_python=str(_python(self.home.demo / "bin")),
            image_logs=str(self.home.demo / "image-logs"),
            environments_token=str(hub.place / "environments-token"),
        )
        database = hub.place / "portal.sqlite"
        tested = self.prepared and self.prepared.lay_tests(database, account, *self._tested(paths))
        token = hub.tests_token  # made before the Hub looks for it
        with ThreadPoolExecutor(1) as beside:
            # Parts are made only after their environments have passed their tests.
            parts = beside.submit(self._make_parts, hub) if tested else None
            with self._step("the Hub and its proxy"):
                self.supervisor.pieces |= {
                    "proxy": hub.proxy,
                    "gateway": hub.gateway,
                    "hub": hub.hub,
                }
                hub.proxy.start()
                hub.gateway.start()
                hub.hub.start()
            self.slurm.wait_for_nodes()
            if parts:
                parts.result()
        service = ServiceApi(hub.url, token)
        if await_tests(service, self.say) and self.prepared and not tested:
            self.prepared.keep_tests(database, *self._tested(paths))
        if not parts:
            self._make_parts(hub)
        if self.showcase:
            self.showcase.begin(Path(paths["apptainer"]), service, hub.url, self.people)

    def _make_parts(self, hub: DemoHub) -> None:
        """Make the parts of features, and their past."""
        for part in loaded("demo"):
            part.make(hub.hub, self.deploy, self.home, self.people, self.say)
        if self.showcase:
            self.showcase.write_past(hub)

    def _tested(self, paths: dict[str, str]) -> list[str]:
        """Return the strings on which the test results of the demo's environments depend."""
        files = sorted(Path(paths["environments"]).glob("*.yaml"))
        scripts = [file.read_text() for file in (*files, self.deploy / "session.sh")]
        home = str(self.home.root)
        return [
            source_digest("images", "store"),
            *(text.replace(home, "") for text in scripts),
            str(self.slurm.gpus.simulated),
            str(self.real_accounts),
        ]

    @property
    def _images_account(self) -> Account:
        return self.people.services["portal-images"] if self.real_accounts else myself()

    def _give_folders(self, catalog: Path, hub: Account) -> None:
        """Create the folders and set their owners: the Hub's account owns the catalog and the
        exchange; a separate account, with the Hub's in its group, owns the images, which everyone
        can read."""
        images = self._images_account
        for folder, mode in ((self.home.images, 0o2775), (self.home.node_cache, 0o755)):
            folder.mkdir(exist_ok=True)
            if self.real_accounts:
                os.chown(folder, images.uid, images.gid)
            folder.chmod(mode)
        self.home.exchange.mkdir(exist_ok=True)
        if self.real_accounts:
            for folder in (catalog, self.home.exchange):
                os.chown(folder, hub.uid, hub.gid)

    def _start_directory(self, reader: int) -> None:
        slapd = Slapd(self.home.demo / "slapd", self.deploy, self.home.people, reader_uid=reader)
        with self._step("the directory (slapd)"):
            self.supervisor.pieces["slapd"] = slapd
            slapd.start()
        self._tell(
            ldap={
                "uri": slapd.uri,
                "ldaps_uri": slapd.ldaps_uri,
                "ca_file": str(slapd.ca_file),
                "people_dn": slapd.people_dn,
                "groups_dn": slapd.groups_dn,
                "bind_dn": slapd.bind_dn,
                "password_file": str(slapd.bind_password_file),
                "admin_dn": slapd.admin_dn,
                "admin_password_file": str(slapd.admin_password_file),
            }
        )

    def _start_slurm(self) -> None:
        with self._step("Slurm"):
            self.slurm.start(lambda message: self.say(f"Slurm: {message}"))
        self.supervisor.pieces |= self.slurm.daemons

    def _end(self) -> None:
        self.say("stopping")
        if self.showcase:
            self.showcase.end()
        try:
            for name, piece in reversed(self.supervisor.pieces.items()):
                if name not in self.slurm.daemons:
                    piece.stop()
            self.slurm.stop()
        finally:
            sweep(self.home)
            (self.home.run / "state.json").unlink(missing_ok=True)
        self.say("stopped")

    def _tell(self, **values: Any) -> None:
        """Add values to state.json, read by the Hub's configuration and other commands."""
        self.state |= values
        file = self.home.run / "state.json"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(self.state, indent=1))
        new.replace(file)

    @contextlib.contextmanager
    def _step(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        self.say(f"starting {what}")
        yield
        self.say(f"{what}: ready after {time.monotonic() - started:.1f} s")


class _Images(threading.Thread):
    """Thread that makes Apptainer and the environments while Slurm and the directory start."""

    def __init__(self, home: Home, root_sessions: bool, say: Say) -> None:
        super().__init__(name="images", daemon=True)
        self.home, self.say = home, say
        self.root_sessions = root_sessions
        self.error: Exception | None = None
        self.found: dict[str, str] = {}

    def run(self) -> None:
        """Make the missing parts."""
        try:
            apptainer = ensure_apptainer(self.home.cache, self.say)
            environments = ensure_environments(self.home.root, self.home.cache, apptainer, self.say)
            if self.root_sessions:
                apptainer = _for_root(apptainer, self.home.demo / "bin")
            self.found = {
                "apptainer": str(apptainer),
                "environments": str(environments.files),
                "venv": str(environments.venv),
                "wheels": str(environments.wheels),
            }
        except Exception as error:
            self.error = error

    def result(self) -> dict[str, str]:
        """Wait for and return ``apptainer`` (the program), ``environments`` (the directory of YAML
        files), ``venv`` and ``wheels``. Raises the thread's exception if it failed."""
        while self.is_alive():
            self.join(0.2)  # with a timeout, so that Ctrl-C is handled
        if self.error is not None:
            raise self.error
        return self.found


def _python(place: Path) -> Path:
    """Return the Python that runs image jobs: this one or, in a demo run from a checkout, a program
    in ``place`` that finds the portal there."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "pyproject.toml").exists():
        return Path(sys.executable)
    place.mkdir(exist_ok=True)
    program = place / "portal-python"
    # It is called as "python -I -m MODULE"; -I ignores PYTHONPATH.
    text = (
        f"import runpy, sys; sys.path.insert(0, {str(checkout)!r}); "
        "runpy.run_module(sys.argv[3], run_name='__main__')"
    )
    command = [shlex.quote(word) for word in (sys.executable, "-I", "-c", text)]
    program.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    program.chmod(0o755)
    return program


def _for_root(apptainer: Path, place: Path) -> Path:
    """Return a wrapper in ``place``, of the same name, that sets the variables Apptainer needs for
    root here, or ``apptainer`` itself if there are none."""
    variables = apptainer_environment()
    if not variables:
        return apptainer
    place.mkdir(exist_ok=True)
    program = place / apptainer.name
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    text = "\n".join(["#!/bin/sh", *lines, f'exec {shlex.quote(str(apptainer))} "$@"', ""])
    program.write_text(text)
    program.chmod(0o755)
    return program


def sweep(home: Home, say: Say | None = None) -> None:
    """End the remaining processes of the demo in ``home``, at its end or after a kill -9."""

    def left() -> list[int]:
        return leftovers(home.root, home.run)

    pids = left()
    if pids:
        if say:
            say(f"stopping {len(pids)} leftover processes of an earlier start")
        end_all(left)
    for file in home.run.glob("*.process"):
        file.unlink(missing_ok=True)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interruptible() -> None:
    """Make SIGTERM and SIGHUP end the demo as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)
