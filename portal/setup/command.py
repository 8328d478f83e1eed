"""``portal setup``: the command for admins, and for a role that installs the portal."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from portal.command import SiteCommand
from portal.errors import InvalidRequest

from .answers import as_file, complete, read_answers
from .asking import agreed, ask_missing, ask_password
from .finding import Found, find
from .https import web_server
from .journal import Journal
from .place import CONFIG, Place
from .plan import plan
from .prerequisites import ensure_root, is_listening, missing
from .services import password_of
from .steps import File, Step
from .trial import Trial, run_as_hub
from .undo import ensure_unedited, undo, undo_plan
from .writing import follow, needed, stopped, write


class SetupApp(SiteCommand):
    """Command that sets the portal up on a submit host. Its options are those of one call, and no
    settings."""

    name = "portal-setup"
    description = "Set the portal up on this submit host of a cluster, as root."
    classes: Any = []

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line; a signal ends the command in words."""
        self.options = self.parser().parse_args(argv)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _interrupted)

    @classmethod
    def parser(cls) -> argparse.ArgumentParser:
        """Return the parser of the command line."""
        parser = argparse.ArgumentParser(
            prog="portal setup", description=cls.description, allow_abbrev=False
        )
        add = parser.add_argument
        add("--answers", metavar="FILE", type=Path, help="file of answers; nothing is asked")
        add("--print-answers", action="store_true", help="print what was found as such a file")
        add("--dry-run", action="store_true", help="show every file and command, change nothing")
        add("--yes", action="store_true", help="do not ask before the changes")
        add("--undo", action="store_true", help="take back what setup did; data stays")
        add("--keep-edited", action="store_true", help="with --undo: leave files that were edited")
        add(
            "--replace",
            metavar="PATH",
            action="append",
            default=[],
            help="replace this file, though setup did not write it as it is",
        )
        add("--test-user", metavar="NAME", help="user for the test session at the end")
        add("--no-test", action="store_true", help="no doctor and no test session at the end")
        add("--test", action="store_true", help="only run the doctor and the test session")
        add("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)  # for tests
        return parser

    def run(self) -> bool:
        """Set up, or undo. Raises PortalError."""
        os.umask(0o022)
        place = Place(self.options.root)
        if self.options.print_answers:
            found = find(place)
            print(as_file({**found.answers, **self._given()}), end="")
            for note in found.notes:
                print(f"# {note}")
            return True
        ensure_root()
        if self.options.undo:
            return self._undo(place)
        return self._set_up(place)

    def _given(self) -> dict[str, Any]:
        given = read_answers(self.options.answers) if self.options.answers else {}
        if self.options.test_user:
            given["test_user"] = self.options.test_user
        return given

    def _set_up(self, place: Place) -> bool:
        given = self._given()
        found = find(place)
        for note in found.notes:
            print(note)
        if not self.options.answers:
            if not sys.stdin.isatty():
                raise InvalidRequest(
                    "There is no terminal for questions. Name a file of answers: portal setup "
                    "--answers=FILE; `portal setup --print-answers` prints one."
                )
            given = ask_missing(given, found.answers)
        answers = complete(given, found.answers)
        password = self._password(answers, found, place)
        if self.options.test:
            return self._tested(answers, place)
        faults = list(missing(answers, password, place, listening=is_listening(place)))
        if faults:
            print("Nothing was changed:", file=sys.stderr)
            for fault in faults:
                print(f"- {fault}", file=sys.stderr)
            return False
        journal = Journal(place)
        steps = self._steps(answers, password, place)
        todo = needed(steps, place, journal)
        for step in todo:
            print("\n".join(step.show(place)))
        if self.options.dry_run:
            print(f"{len(todo)} changes; nothing was changed (--dry-run).")
            return True
        if todo and not self.options.yes and not agreed(f"Make these {len(todo)} changes?"):
            print("Nothing was changed.")
            return False
        with journal.locked():
            write(steps, place, journal, _say)
            pending = len(journal.pending)
            left = follow(place, journal, web_server(answers, place), _say)
        changed = bool(todo) or len(journal.pending) != pending
        print(f"{len(todo)} changes were made." if changed else "Nothing to change.")
        if left:
            print("systemd does not run here. Where it does, run as root:")
            print("\n".join(f"  {line}" for line in left))
            print("Then test it: portal setup --test, with the same answers.")
            return True
        return not place.is_machine or self.options.no_test or self._tested(answers, place)

    def _steps(self, answers: dict[str, Any], password: str, place: Place) -> list[Step]:
        steps = plan(answers, password, place)
        replaced = set(self.options.replace)
        for step in steps:
            if isinstance(step, File) and step.path in replaced:
                step.replace = True
                replaced.discard(step.path)
        if replaced:
            raise InvalidRequest(f"--replace: setup does not write {sorted(replaced)[0]}.")
        return steps

    def _password(self, answers: dict[str, Any], found: Found, place: Place) -> str:
        dn = answers["ldap_bind_dn"]
        password = password_of(
            answers, found.password, found.answers.get("ldap_bind_dn", ""), place
        )
        if dn and not password and not self.options.answers:
            return ask_password(f"Password of {dn}: ")
        return password

    def _tested(self, answers: dict[str, Any], place: Place) -> bool:
        """Run the doctor and the test session; return True if both are content."""
        if off := stopped(place):
            print(f"Not running: {', '.join(off)}. See: journalctl -u {off[0]}", file=sys.stderr)
            return False
        trial = Trial(answers, place, _say)
        asyncio.run(trial.wait())  # it makes its databases, which the doctor looks at
        words = ["portal", "doctor", f"--config={CONFIG}"]
        if answers["test_user"]:
            words.append(f"--person={answers['test_user']}")
        print("portal doctor:", flush=True)
        good = run_as_hub(answers, place, words).returncode == 0
        if answers["test_user"]:
            print(f"Test session of {answers['test_user']}:")
            asyncio.run(trial.run())
        return good

    def _undo(self, place: Place) -> bool:
        journal = Journal(place)
        if not journal.entries and not journal.path.exists():
            print("Nothing to undo.")
            return True
        if not self.options.keep_edited:
            ensure_unedited(journal)
        print("\n".join(undo_plan(journal)))
        if self.options.dry_run:
            print("Nothing was changed (--dry-run).")
            return True
        if not self.options.yes and not agreed("Undo this?"):
            print("Nothing was changed.")
            return False
        with journal.locked():
            undo(place, journal, _say)
        return True


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupted(number: int, frame: object) -> None:
    print("\nInterrupted. Run it again: it continues where it was.", file=sys.stderr)
    sys.exit(128 + number)
