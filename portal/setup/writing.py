"""Execution of a plan: its steps in order, then what follows from them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from portal.errors import ConfigurationError

from .https import WebServer
from .journal import Journal, Kept, put
from .place import Place, ask
from .plan import HUB_UNIT, PROXY_UNIT
from .steps import Step
from .undo import take_back

Say = Callable[[str], None]


def needed(steps: Iterable[Step], place: Place, journal: Journal) -> list[Step]:
    """Return the steps that change something. Raises Conflict for what must not be changed."""
    return [step for step in steps if step.needed(place, journal)]


def write(steps: Iterable[Step], place: Place, journal: Journal, say: Say) -> None:
    """Do the steps. Raises PortalError; the journal knows what was done then."""
    for step in steps:
        try:
            # An earlier step may have made the difference, e.g. the account of a folder.
            if step.needed(place, journal):
                step.apply(place, journal)
                say(f"done: {step.show(place)[0]}")
        except OSError as error:
            raise ConfigurationError(
                f"{step.id.partition(':')[2]}: {error.strerror or error}. What was written before "
                "is in the journal: run setup again, or `portal setup --undo`."
            ) from None


def follow(place: Place, journal: Journal, web: WebServer | None, say: Say) -> list[str]:
    """Do what is pending: restarts and reloads. Return the commands that are left to the reader
    where systemd does not run. Raises PortalError."""
    if web and f"reload {web.reload}" in journal.pending:
        _test(web, place, journal)
    left = []
    for action in sorted(journal.pending, key=_order):
        verb, _, unit = action.partition(" ")
        verb = "reload-or-restart" if verb == "reload" else verb
        argv = ["systemctl", verb, *unit.split()]
        if place.runs_systemd:
            # It can take as long as the Hub's start: it waits for its web service.
            answer = ask([place.program("systemctl") or "systemctl", *argv[1:]], 300)
            if not answer.good:
                raise ConfigurationError(
                    f"{' '.join(argv)} has failed: {answer.words} "
                    f"See: journalctl -u {unit or 'init'}"
                )
            say(f"done: {' '.join(argv)}")
            journal.done(action)
        else:
            left.append(" ".join(argv))
    return left


def stopped(place: Place) -> list[str]:
    """Return the portal's units that do not run."""
    systemctl = place.program("systemctl")
    if not place.runs_systemd:
        return []
    return [unit for unit in (PROXY_UNIT, HUB_UNIT) if not ask([systemctl, "is-active", unit]).good]


def _order(action: str) -> tuple[int, str]:
    """Sort units' files before the units, and the proxy before the Hub, which asks it."""
    ranks = ("daemon-reload", f"restart {PROXY_UNIT}", f"restart {HUB_UNIT}")
    return (ranks.index(action) if action in ranks else len(ranks), action)


def _test(web: WebServer, place: Place, journal: Journal) -> None:
    """Test the web server's configuration; put back what was there if it is refused. Raises
    ConfigurationError."""
    answer = ask(web.test)
    if answer.good:
        return
    paths = {str(place.path(path)) for path, _ in web.files}
    for step, entry in reversed(list(journal.entries.items())):
        if entry.get("path") in paths and entry["former"]:
            former = Kept.of_json(entry["former"])
            put(Path(entry["path"]), former)
            journal.begin(step, {**entry, "hashes": [former.hash]})
        elif entry.get("path") in paths or step.startswith("command:web a2ensite"):
            take_back(step, entry, place)
            journal.forget(step)
    journal.done(f"reload {web.reload}")
    raise ConfigurationError(
        f"{web.name} refuses the configuration, so its files are as they were: {answer.words}. "
        f"Mend that, try `{shlex.join(web.test)}`, and run setup again."
    )
