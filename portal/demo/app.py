"""``portal demo``: the whole portal on this machine, on real parts, from private directories."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traitlets import Bool, Enum, Integer, Unicode, default
from traitlets.config import Application, catch_config_error

from .. import __version__
from ..errors import ConfigurationError, PortalError
from ..where import data_path
from . import namespace
from .home import Home
from .hub import DemoHub
from .people import People, myself
from .ports import Ports, free
from .process import MARK, end_all, leftovers, start_time, wait_for
from .reset import remove
from .running import Running
from .slurm import PrivateSlurm
from .supervisor import Supervisor

_NOT_RUNNING = 3  # as systemctl(1) status answers


class DemoApp(Application):
    """Start, stop and look at the demo of one state directory."""

    name = "portal-demo"
    version = __version__
    description = """The whole portal on this machine: Slurm, LDAP, Apptainer and the Hub.

    Everything runs from one private state directory and listens on loopback only. Started by
    root, the demo's people are real accounts in a private namespace; started by anyone else,
    everything runs under that account. Ctrl-C ends it all."""
    examples = """
    portal demo                      # start; Ctrl-C stops everything
    portal demo --port=8080          # on another port (or PORTAL_PORT)
    portal demo --status             # what runs
    portal demo --stop               # stop it from another terminal
    portal demo --reset              # stop it and delete its state (not the cache)
    """

    home = Unicode(
        "",
        help="""State directory; the default is PORTAL_HOME, else /var/lib/data-scientist-portal
        for root and ~/.local/share/data-scientist-portal for others.
        Example: portal demo --home=/srv/portal-demo""",
    ).tag(config=True)
    port = Integer(
        help="""Port of the portal on 127.0.0.1; the default is PORTAL_PORT, else 8000.
        Example: portal demo --port=8080"""
    ).tag(config=True)
    only = Enum(
        ("all", "slurm"),
        "all",
        help="""Start only this part, for development. Example: portal demo --only=slurm""",
    ).tag(config=True)
    form = Enum(
        ("auto", "people", "one-account"),
        "auto",
        help="""Whether the demo's people are real accounts (needs root and mount namespaces) or
        everything runs under one account; auto takes the first where it can.
        Example: portal demo --form=one-account""",
    ).tag(config=True)
    stop_it = Bool(False, help="Stop the demo that runs.").tag(config=True)
    show = Bool(False, help="Say what runs.").tag(config=True)
    reset = Bool(False, help="Stop the demo and delete its state.").tag(config=True)

    aliases = {
        "home": "DemoApp.home",
        "port": "DemoApp.port",
        "only": "DemoApp.only",
        "form": "DemoApp.form",
        "log-level": "Application.log_level",
    }
    flags = {
        "stop": ({"DemoApp": {"stop_it": True}}, "Stop the demo that runs."),
        "status": ({"DemoApp": {"show": True}}, "Say what runs, and how to enter it."),
        "reset": ({"DemoApp": {"reset": True}}, "Stop it and delete its state (not the cache)."),
    }
    classes = []

    @default("port")
    def _port_default(self) -> int:
        text = os.environ.get("PORTAL_PORT") or "8000"
        if not text.isdigit():
            raise ConfigurationError(f"PORTAL_PORT is '{text}', which is no port number.")
        return int(text)

    @catch_config_error
    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line."""
        super().initialize(argv)

    def start(self) -> None:
        """Do what the command line asks; what goes wrong is one sentence and status 1."""
        try:
            place = Home.find(self.home or None)
            if self.show:
                self.exit(self._say_status(place))
            if self.stop_it or self.reset:
                self._stop_running(place)
                if self.reset:
                    remove(place)
                    print(f"Deleted {place.demo}.", flush=True)
                self.exit(0)
            if not 0 < self.port < 65536:
                raise ConfigurationError(f"{self.port} is no port number (1 to 65535).")
            self.exit(self._run(place))
        except PortalError as error:
            print(f"portal demo: {error.message}", file=sys.stderr, flush=True)
            self.exit(1)

    # -- one demo, from start to end -----------------------------------------------------------

    def _run(self, place: Home) -> int:
        people_form = self._people_form()
        place.make(shared=people_form)
        with _lock(place) as owner:
            if not owner:
                return self._already(place)
            self._sweep(place)
            if self.only == "all" and not free(self.port):
                raise ConfigurationError(
                    f"Port {self.port} of this machine is taken. Name another one: "
                    "PORTAL_PORT=8080 make run."
                )
            _interruptible()
            supervisor = Supervisor(place.run / "control", self._say)
            slurm = None
            # Whatever is started from here on can be found again by this mark.
            os.environ[MARK] = str(place.root)
            try:
                deploy = data_path("deploy")
                people = People.read(deploy / "demo" / "people.toml")
                ports = Ports(place.demo / "ports.json")
                slurm = PrivateSlurm(place, people, ports, deploy, real_accounts=people_form)
                slurm.prepare()
                if not slurm.loopback_only:
                    self._say(
                        "this machine's name is an address of the network, so Slurm's ports are "
                        "open to it; munge guards them"
                    )
                if people_form:
                    namespace.enter(place, people, deploy)
                state = self._first_state(place, people, slurm)
                _write_state(place, state)
                self._start_pieces(place, deploy, people, ports, slurm, supervisor, state)
                state["ready"] = True
                _write_state(place, state)
                self._say_ready(state, people)
                supervisor.serve()
            except KeyboardInterrupt:
                print(flush=True)
            finally:
                self._shut_down(place, supervisor, slurm)
        return 0

    def _start_pieces(
        self,
        place: Home,
        deploy: Path,
        people: People,
        ports: Ports,
        slurm: PrivateSlurm,
        supervisor: Supervisor,
        state: dict[str, Any],
    ) -> None:
        if self.only == "slurm":
            self._start_slurm(slurm, supervisor)
            return
        account = people.services["portal"] if slurm.real_accounts else myself()
        hub = DemoHub(place, deploy, ports, self.port, account, place.run / "state.json")
        images = _Images(place, self._say)
        images.start()
        self._start_directory(place, deploy, account.uid, supervisor, state)
        self._start_slurm(slurm, supervisor)
        state |= images.result()
        state |= {
            "hub_url": f"http://127.0.0.1:{ports['hub']}",
            "proxy_api_url": f"http://127.0.0.1:{ports['proxy-api']}",
            "hub_directory": str(hub.place),
            "session_logs": str(place.demo / "sessions"),
        }
        _write_state(place, state)
        with self._step("the Hub and its proxy"):
            supervisor.pieces["proxy"] = hub.proxy
            supervisor.pieces["hub"] = hub.hub
            hub.proxy.start()
            hub.hub.start()

    def _start_directory(
        self, place: Home, deploy: Path, reader: int, supervisor: Supervisor, state: dict[str, Any]
    ) -> None:
        from .slapd import Slapd

        slapd = Slapd(place.demo / "slapd", deploy, place.people, reader_uid=reader)
        with self._step("the directory (slapd)"):
            supervisor.pieces["slapd"] = slapd
            slapd.start()
        state["ldap"] = {
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

    def _start_slurm(self, slurm: PrivateSlurm, supervisor: Supervisor) -> None:
        with self._step("Slurm"):
            slurm.start(lambda words: self._say(f"Slurm: {words}"))
        supervisor.pieces |= slurm.daemons

    def _shut_down(self, place: Home, supervisor: Supervisor, slurm: PrivateSlurm | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        self._say("stopping")
        slurm_names = set(slurm.daemons) if slurm else set()
        try:
            others = [name for name in supervisor.pieces if name not in slurm_names]
            for name in reversed(others):
                supervisor.pieces[name].stop()
            if slurm:
                slurm.stop()
        finally:
            self._sweep(place, quiet=True)
            (place.run / "state.json").unlink(missing_ok=True)
        self._say("stopped")

    # -- state ----------------------------------------------------------------------------------

    def _people_form(self) -> bool:
        if self.form == "one-account":
            return False
        if namespace.allowed():
            return True
        if self.form == "people":
            raise ConfigurationError(
                "The people form needs root and a kernel that allows mount namespaces."
            )
        if os.geteuid() == 0:
            self._say("mount namespaces are refused here, so everything runs under one account")
        return False

    def _first_state(self, place: Home, people: People, slurm: PrivateSlurm) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "started": start_time(os.getpid()),
            "ready": False,
            "only": self.only,
            "url": f"http://127.0.0.1:{self.port}",
            "form": "people" if slurm.real_accounts else "one account",
            "account": myself().name,
            "people": list(people.persons) if slurm.real_accounts else [],
            "homes": str(place.people),
            "simulated_gpus": slurm.gpus.simulated,
            "slurm_conf": slurm.env["SLURM_CONF"],
            "slurm_address": slurm.address,
        }

    def _already(self, place: Home) -> int:
        state = Running(place).state
        if state and state["ready"]:
            print(f"The demo in {place.root} runs already: {state['url']}", flush=True)
            return 0
        print(f"The demo in {place.root} is being started or stopped by another command.")
        return 1

    def _sweep(self, place: Home, quiet: bool = False) -> None:
        """End what is left of this demo: at its end, or of one that was killed."""
        passwd = place.demo / "etc" / "passwd"

        def left() -> list[int]:
            return leftovers(place.root, passwd, place.run)

        found = left()
        if found and not quiet:
            self._say(f"ending {len(found)} processes that an earlier start left behind")
        if found:
            end_all(left)
        for file in place.run.glob("*.process"):
            file.unlink(missing_ok=True)

    def _stop_running(self, place: Home) -> None:
        state = Running(place).state
        if state is None:
            if place.run.is_dir():
                self._sweep(place)
            print(f"No demo runs in {place.root}.", flush=True)
            return
        os.kill(state["pid"], signal.SIGTERM)
        if not wait_for(lambda: start_time(state["pid"]) != state["started"], 30):
            raise PortalError(f"The demo (process {state['pid']}) does not end.")
        print(f"Stopped the demo in {place.root}.", flush=True)

    def _say_status(self, place: Home) -> int:
        running = Running(place)
        state = running.state
        if state is None:
            print(f"No demo runs in {place.root}.", flush=True)
            return _NOT_RUNNING
        if not state["ready"]:
            print(f"The demo in {place.root} is starting.", flush=True)
            return 0
        pieces = running.tell("status")["pieces"]
        down = [name for name, word in pieces.items() if word != "up"]
        if state["only"] == "all":
            print(f"Portal ready at {state['url']}")
        print(f"State directory: {place.root} (logs in {place.log})")
        print(f"Form: {_form(state)}")
        print(f"GPUs: {_gpus(state)}")
        print(f"Pieces: {len(pieces) - len(down)} up{', down: ' + ', '.join(down) if down else ''}")
        if state["form"] == "people":
            print(f"Enter it (as root): nsenter -t {state['pid']} -m runuser -u ada -- sinfo")
        else:
            print(f"Enter it: SLURM_CONF={state['slurm_conf']} sinfo")
        sys.stdout.flush()
        return 0

    # -- words ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _step(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        self._say(f"starting {what}")
        yield
        self._say(f"{what}: ready after {time.monotonic() - started:.1f} s")

    def _say(self, words: str) -> None:
        print(f"  {words}", flush=True)

    def _say_ready(self, state: dict[str, Any], people: People) -> None:
        if self.only != "all":
            print(f"Slurm ready: {state['slurm_conf']} (process {state['pid']})", flush=True)
            return
        print(f"Portal ready at {state['url']}")
        print(
            f"  Log in as ada (data scientist), grace (admin), barbara (instructor) or "
            f"{people.students[0]} to {people.students[-1]}; password {people.password}"
        )
        print(f"  {_form(state)}. GPUs: {_gpus(state)}. Ctrl-C stops everything.", flush=True)


class _Images(threading.Thread):
    """Apptainer and the environments, made while Slurm and the directory start."""

    def __init__(self, place: Home, say: Any) -> None:
        super().__init__(name="images", daemon=True)
        self.place, self.say = place, say
        self.error: Exception | None = None
        self.state: dict[str, str] = {}

    def run(self) -> None:
        try:
            from .apptainer import ensure_apptainer
            from .environments import ensure_environments

            apptainer = ensure_apptainer(self.place.cache, self.say)
            directory = ensure_environments(self.place.root, self.place.cache, apptainer, self.say)
            self.state = {"apptainer": str(apptainer), "environments": str(directory)}
        except Exception as error:
            self.error = error

    def result(self) -> dict[str, str]:
        """What the Hub's configuration needs of it; raises what went wrong."""
        while self.is_alive():
            self.join(0.2)  # with a time, so that Ctrl-C is heard
        if self.error is not None:
            raise self.error
        return self.state


def _form(state: dict[str, Any]) -> str:
    if state["form"] == "people":
        return "The demo's people are real accounts in a private namespace"
    return f"Everything runs under one account ({state['account']})"


def _gpus(state: dict[str, Any]) -> str:
    return "simulated" if state["simulated_gpus"] else "this machine's own"


def _write_state(place: Home, state: dict[str, Any]) -> None:
    file = place.run / "state.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(state, indent=1))
    new.replace(file)


def _interruptible() -> None:
    """SIGTERM ends the demo as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGHUP, interrupt)


@contextlib.contextmanager
def _lock(place: Home) -> Iterator[bool]:
    """Whether this process alone starts and runs the demo of ``place``."""
    with (place.demo / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
