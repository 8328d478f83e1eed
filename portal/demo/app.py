"""``portal demo``: the whole portal on this machine, with real daemons in private directories."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from traitlets import Bool, Enum, Integer, Unicode, default
from traitlets.config import Application, catch_config_error

from .. import __version__
from ..errors import ConfigurationError, PortalError
from . import namespace
from .daemons.ports import free
from .daemons.process import start_time, wait_for
from .home import Home
from .reset import remove
from .running import Running
from .showcase.showcase import remove_past
from .whole import WholeDemo, sweep

_NOT_RUNNING = 3  # as in systemctl(1), status


class DemoApp(Application):
    """Application that starts, stops and inspects the demo of a state directory."""

    name = "portal-demo"
    version = __version__
    description = """Run the whole portal on this machine: Slurm, LDAP, Apptainer and the Hub.

    Everything runs from one private state directory and listens on loopback only. If root starts
    it, the demo's users are real accounts in a private namespace; otherwise, everything runs
    under the account that starts it. Ctrl-C stops everything."""
    examples = """
    portal demo                      # start; Ctrl-C stops everything
    portal demo --port=8080          # use another port (or PORTAL_PORT)
    portal demo --status             # print the status
    portal demo --stop               # stop the demo, from another terminal
    portal demo --bare               # without examples (or PORTAL_DEMO=bare)
    portal demo --remove-examples    # delete the examples of ended sessions and usage
    portal demo --reset              # stop it and delete its state (not the cache)
    """

    home = Unicode(
        "",
        help="""State directory. Default: PORTAL_HOME, else /var/lib/data-scientist-portal for root
        and ~/.local/share/data-scientist-portal for others.
        Example: portal demo --home=/srv/portal-demo""",
    ).tag(config=True)
    port = Integer(
        help="""Port of the portal on 127.0.0.1. Default: PORTAL_PORT, else 8000.
        Example: portal demo --port=8080"""
    ).tag(config=True)
    only = Enum(
        ("all", "slurm"),
        "all",
        help="""Start only this part, for development.
        Example: portal demo --only=slurm""",
    ).tag(config=True)
    form = Enum(
        ("auto", "people", "one-account"),
        "auto",
        help="""Accounts of the demo's users: people (real ones; needs root and mount namespaces),
        one-account (everything runs under one), or auto (real ones if possible).
        Example: portal demo --form=one-account""",
    ).tag(config=True)
    prepared = Bool(
        False,
        help="""Start a new state directory with cached results of an earlier start: the accounting
        database and the test results of the environments. The environments are then not tested
        again, and the pages show the earlier tests. For tests of the portal.
        Example: portal demo --prepared""",
    ).tag(config=True)
    bare = Bool(
        help="""Start without demo content: examples of ended sessions and usage, environments with
        frameworks that are built in the background, the README notebook.
        Default: True if PORTAL_DEMO is "bare".
        Example: portal demo --bare"""
    ).tag(config=True)
    examples_away = Bool(False, help="Delete the examples of ended sessions and usage.").tag(
        config=True
    )
    stop_it = Bool(False, help="Stop the running demo.").tag(config=True)
    show = Bool(False, help="Print the status of the demo.").tag(config=True)
    reset = Bool(False, help="Stop the demo and delete its state.").tag(config=True)

    aliases = {
        "home": "DemoApp.home",
        "port": "DemoApp.port",
        "only": "DemoApp.only",
        "form": "DemoApp.form",
        "log-level": "Application.log_level",
    }
    flags = {
        "prepared": (
            {"DemoApp": {"prepared": True}},
            "Start with cached results of an earlier start.",
        ),
        "bare": ({"DemoApp": {"bare": True}}, "Start without examples and frameworks."),
        "remove-examples": (
            {"DemoApp": {"examples_away": True}},
            "Delete the examples of ended sessions and usage.",
        ),
        "stop": ({"DemoApp": {"stop_it": True}}, "Stop the running demo."),
        "status": (
            {"DemoApp": {"show": True}},
            "Print the status, and how to run commands in the demo.",
        ),
        "reset": (
            {"DemoApp": {"reset": True}},
            "Stop the demo and delete its state (not the cache).",
        ),
    }
    classes = []

    @default("port")
    def _port_default(self) -> int:
        text = os.environ.get("PORTAL_PORT") or "8000"
        if not text.isdigit():
            raise ConfigurationError(f"PORTAL_PORT is '{text}', which is not a port number.")
        return int(text)

    @default("bare")
    def _bare_default(self) -> bool:
        text = os.environ.get("PORTAL_DEMO", "")
        if text not in ("", "bare"):
            raise ConfigurationError(f"PORTAL_DEMO is '{text}'. It can be 'bare' or empty.")
        return text == "bare"

    @catch_config_error
    def initialize(self, argv: list[str] | None = None) -> None:
        """Parse the command line."""
        super().initialize(argv)

    def start(self) -> None:
        """Run the command; print an error as one sentence and exit with status 1."""
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
            if self.examples_away:
                self.exit(self._remove_examples(place))
            if not 0 < self.port < 65536:
                raise ConfigurationError(f"{self.port} is not a port number (1 to 65535).")
            self.exit(self._run(place))
        except PortalError as error:
            print(f"portal demo: {error.message}", file=sys.stderr, flush=True)
            self.exit(1)

    def _run(self, place: Home) -> int:
        real_accounts = self._real_accounts()
        place.make(shared=real_accounts)
        with _lock(place) as owner:
            if not owner:
                return self._already(place)
            sweep(place, self._say)
            if self.only == "all" and not free(self.port):
                raise ConfigurationError(
                    f"Port {self.port} is in use. Choose another port: PORTAL_PORT=8080 make run."
                )
            demo = WholeDemo(
                *(place, self.port, self.only, real_accounts, self._say),
                prepared=self.prepared,
                bare=self.bare,
            )
            demo.run(self._say_ready)
        return 0

    def _real_accounts(self) -> bool:
        if self.form == "one-account":
            return False
        if namespace.allowed():
            return True
        if self.form == "people":
            raise ConfigurationError(
                "--form=people needs root and a kernel that allows mount namespaces."
            )
        if os.geteuid() == 0:
            self._say("no permission for mount namespaces: everything runs under one account")
        return False

    def _already(self, place: Home) -> int:
        state = Running(place).state
        if state and state["ready"]:
            print(f"The demo in {place.root} is already running: {state['url']}", flush=True)
            return 0
        print(f"Another command is starting or stopping the demo in {place.root}.")
        return 1

    def _stop_running(self, place: Home) -> None:
        state = Running(place).state
        if state is None:
            if place.run.is_dir():
                sweep(place, self._say)
            print(f"No demo is running in {place.root}.", flush=True)
            return
        os.kill(state["pid"], signal.SIGTERM)
        if not wait_for(lambda: start_time(state["pid"]) != state["started"], 120):
            raise PortalError(f"The demo (process {state['pid']}) did not stop within 120 s.")
        print(f"Stopped the demo in {place.root}.", flush=True)

    def _remove_examples(self, place: Home) -> int:
        removed = remove_past(Running(place))
        print("Deleted the examples." if removed else "There are no examples.", flush=True)
        return 0

    def _say_status(self, place: Home) -> int:
        running = Running(place)
        state = running.state
        if state is None:
            print(f"No demo is running in {place.root}.", flush=True)
            return _NOT_RUNNING
        if not state["ready"]:
            print(f"The demo in {place.root} is starting.", flush=True)
            return 0
        pieces = running.control("status")["pieces"]
        down = [name for name, word in pieces.items() if word != "up"]
        if state["only"] == "all":
            print(f"Portal ready at {state['url']}")
        print(f"State directory: {place.root} (logs in {place.log})")
        print(f"Form: {_form(state)}")
        print(f"GPUs: {_gpus(state)}")
        up = len(pieces) - len(down)
        print(f"Processes: {up} up{', down: ' + ', '.join(down) if down else ''}")
        if state["form"] == "people":
            print(
                "Run a command in the demo (as root): "
                f"nsenter -t {state['pid']} -m runuser -u ada -- sinfo"
            )
        else:
            print(f"Run a command in the demo: SLURM_CONF={state['slurm_conf']} sinfo")
        sys.stdout.flush()
        return 0

    def _say(self, message: str) -> None:
        print(f"  {message}", flush=True)

    def _say_ready(self, demo: WholeDemo) -> None:
        state, people = demo.state, demo.people
        if self.only != "all":
            print(f"Slurm ready: {state['slurm_conf']} (process {state['pid']})", flush=True)
            return
        print(f"Portal ready at {state['url']}")
        print(
            f"  Log in as ada (data scientist), grace (admin), barbara (instructor) or "
            f"{people.students[0]} to {people.students[-1]}; password {people.password}"
        )
        print(f"  {_form(state)}. GPUs: {_gpus(state)}. Ctrl-C stops everything.", flush=True)


def _form(state: dict[str, Any]) -> str:
    if state["form"] == "people":
        return "The demo's users are real accounts in a private namespace"
    return f"Everything runs under one account ({state['account']})"


def _gpus(state: dict[str, Any]) -> str:
    return "simulated" if state["simulated_gpus"] else "this machine's own"


@contextlib.contextmanager
def _lock(place: Home) -> Iterator[bool]:
    """Yield True if this process holds the lock of the demo in ``place``, else False."""
    with (place.demo / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
