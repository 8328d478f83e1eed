"""The way back: what the journal has is removed or restored, and what was edited since stays."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portal.errors import ConfigurationError, Conflict

from .journal import Journal, Kept, beside, put, remove
from .place import HUB, STATE, Place, ask
from .plan import HUB_UNIT, PROXY_UNIT
from .steps import is_foreign, remove_folder

Say = Callable[[str], None]


def edited(journal: Journal) -> list[str]:
    """Return the files that are neither as setup wrote them nor as they were before."""
    found = []
    for entry in journal.entries.values():
        if entry["kind"] == "file":
            now = Kept.at(Path(entry["path"]))
            if now is not None and is_foreign(now, entry):
                found.append(entry["path"])
    return found


def ensure_unedited(journal: Journal) -> None:
    """Raise Conflict that names the files that were edited."""
    if files := edited(journal):
        raise Conflict(
            f"Edited since setup wrote them: {', '.join(files)}. Nothing was undone. Save what you "
            "need of them and remove them, or leave them where they are: --undo --keep-edited"
        )


def undo_plan(journal: Journal) -> list[str]:
    """Return what undo does, a line for each."""
    lines, stay = [], edited(journal)
    for step, entry in reversed(journal.entries.items()):
        if entry["kind"] == "command":
            if entry["undo"]:
                lines.append(f"command  {shlex.join(entry['undo'])}")
            elif step.startswith("command:account "):
                lines.append(f"{step.partition(':')[2]} is removed unless it owns data")
            continue
        if entry["kind"] == "folder":
            what = "is removed if empty" if entry["made"] else "gets its former mode and owner"
        elif entry["path"] in stay:
            what = "stays: it was edited"
        else:
            what = "gets its former content" if entry["before"] else "is removed"
        lines.append(f"{entry['kind']:<8} {entry['path']} {what}")
    return lines


def undo(place: Place, journal: Journal, say: Say) -> None:
    """Undo everything, newest first; edited files stay. Raises PortalError: the rest is in the
    journal then, and undo can run again."""
    units = [
        unit for unit in (HUB_UNIT, PROXY_UNIT) if any(unit in step for step in journal.entries)
    ]
    systemctl = place.program("systemctl") or "systemctl"
    if place.runs_systemd and units:
        ask([systemctl, "stop", *units], 120)
    follows = [action for entry in journal.entries.values() for action in entry["then"]]
    reloads = [action.split()[1] for action in follows if action.startswith("reload ")]
    stay = edited(journal)
    for step, entry in reversed(list(journal.entries.items())):
        if entry.get("path") in stay:
            say(f"kept: {entry['path']}, which was edited")
        else:
            try:
                if done := take_back(step, entry, place):
                    say(done)
            except OSError as error:
                raise ConfigurationError(
                    f"{step.partition(':')[2]}: {error.strerror}. The rest is in the journal: run "
                    "`portal setup --undo` again."
                ) from None
        journal.forget(step)
    if place.runs_systemd:
        ask([systemctl, "daemon-reload"])
        for unit in dict.fromkeys(reloads):
            ask([systemctl, "reload-or-restart", unit], 60)
    remove(journal.path)
    remove(journal.path.with_suffix(".lock"))
    state = place.path(STATE)
    if not remove_folder(state) and state.is_dir():
        say(f"kept: the portal's data in {state}; nothing deletes it but you")


def take_back(step: str, entry: dict[str, Any], place: Place) -> str:
    """Undo one step; return what was done. Raises OSError, ConfigurationError."""
    name = step.partition(":")[2]
    if entry["kind"] == "file":
        path = Path(entry["path"])
        if entry["before"]:
            put(path, Kept.of_json(entry["before"]))
            return f"restored: {path}"
        remove(path)
        return f"removed: {path}"
    if entry["kind"] == "folder":
        return _folder_back(entry)
    if name.startswith("account "):
        return _account_back(name.removeprefix("account "), place)
    if not entry["undo"]:
        return ""  # it goes with what it belongs to, as a limit with its account
    if name.startswith("slurm ") and (jobs := _jobs(entry, name.split()[-1])):
        return f"kept: {name}, which has jobs ({jobs})"
    answer = ask(entry["undo"], 60, **entry["variables"])
    return f"undone: {name}" if answer.good else f"not undone: {name}: {answer.words}"


def _folder_back(entry: dict[str, Any]) -> str:
    path = Path(entry["path"])
    if not entry["made"]:
        if entry["before"] and path.is_dir():
            mode, uid, gid = entry["before"]
            os.chown(path, uid, gid)
            path.chmod(mode)
        return f"restored: {path}"
    remove_folder(beside(path))
    for folder in map(Path, entry["made"]):
        if not remove_folder(folder):
            return f"kept: {folder}, which is not empty"
    return f"removed: {path}"


def _account_back(name: str, place: Place) -> str:
    """Remove the account, unless it still owns data or runs something: its number must not become
    somebody else's."""
    if not place.has_account(name):
        return f"gone: account {name}"
    if place.path(HUB).exists():
        return f"kept: account {name}, which owns {place.path(HUB)}"
    prefix = [] if place.is_machine else ["--prefix", str(place.root)]
    answer = ask([place.program("userdel") or "userdel", *prefix, name])
    return f"removed: account {name}" if answer.good else f"kept: account {name}: {answer.words}"


def _jobs(entry: dict[str, Any], account: str) -> str:
    squeue = Path(entry["undo"][0]).with_name("squeue")
    found = ask([str(squeue), "-h", "-A", account, "-o", "%A"], **entry["variables"])
    return ", ".join(re.findall(r"\d+", found.stdout)[:5]) if found.good else "squeue has failed"
