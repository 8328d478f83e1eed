"""Application of ``portal doctor``: checks this site and says how to fix each finding."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import sys
import time
from datetime import UTC, datetime
from typing import NoReturn

from traitlets import Bool, Float, List, Unicode
from traitlets.config import Application

from portal import __version__

from ..setting import setting
from .checks import all_checks
from .finding import Finding
from .report import as_json, failed, lines, summary
from .site import Site
from .watch import Changes
from .watch import lines as watch_lines


class DoctorApp(Application):
    """Command that checks a site. Nothing is changed; exit status 1 if a check finds a failure."""

    name = "portal-doctor"
    version = __version__
    description = (
        "Check this site and suggest fixes. Run it as the Hub's account, on the Hub's machine. "
        "--watch=MINUTES repeats it, and prints what changes."
    )
    examples = """
        sudo -u portal portal doctor -f /etc/data-scientist-portal/jupyterhub_config.py
        portal doctor --person=ada --json
        portal doctor --watch=10
    """
    aliases = {
        "f": "DoctorApp.config_file",
        "config": "DoctorApp.config_file",
        "person": "DoctorApp.person",
        "only": "DoctorApp.only",
        "timeout": "DoctorApp.timeout",
    }
    flags = {
        "json": ({"DoctorApp": {"json": True}}, "Print JSON."),
        # Read by ``initialize``; here, it is in the help.
        "watch": ({}, "Check again every 10 minutes, or --watch=MINUTES; print what changes."),
    }

    config_file = setting(
        Unicode(""),
        """The Hub's configuration file. Empty: the site's file in /etc/data-scientist-portal, else
        the portal's own.""",
        "portal doctor -f /etc/data-scientist-portal/jupyterhub_config.py",
    )
    json = setting(Bool(False), "Print JSON.", "portal doctor --json")
    person = setting(
        Unicode(""),
        """Name of a portal user whose permissions and home directory are checked. Empty: a member
        of the group in the sudo rule.""",
        "portal doctor --person=ada",
    )
    only = setting(
        List(Unicode()),
        "Ids of the checks to run; empty: all.",
        "portal doctor --only=slurm --only=sudo",
    )
    timeout = setting(
        Float(30.0, min=1),
        "Maximum seconds for each check. Checks run at the same time.",
        "portal doctor --timeout=60",
    )

    watch = 0.0  # minutes between two looks; 0: one look

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line, with ``--watch=MINUTES``: the checks are run again and again, and
        only what changes is printed."""
        given = sys.argv[1:] if argv is None else argv
        watch = [word for word in given if word.partition("=")[0] == "--watch"]
        for text in watch:
            minutes = text.partition("=")[2] or "10"
            if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", minutes) or not float(minutes):
                print(f"'{minutes[:40]}' is no number of minutes: --watch=10", file=sys.stderr)
                self.exit(2)
            self.watch = float(minutes)
        super().initialize([word for word in given if word not in watch])

    def start(self) -> None:
        """Run the checks and print their findings."""
        # The findings include the Hub's log messages.
        logging.getLogger("portal.doctor").setLevel(logging.CRITICAL)
        site = Site(self.config_file, self.person)  # adds the works that it names, and their checks
        known = [check.id for check in all_checks()]
        if unknown := sorted({*self.only} - {*known}):
            print(
                f"Unknown check: {', '.join(unknown)}. Known: {', '.join(known)}.", file=sys.stderr
            )
            self.exit(2)
        if self.watch:
            self.keep_looking(site)
        if not self.json:
            print(f"Data Scientist Portal {__version__}\n", flush=True)
        findings = asyncio.run(self.examine(site))
        if self.json:
            print(as_json(findings))
        self.exit(1 if failed(findings) else 0)

    def keep_looking(self, site: Site) -> NoReturn:
        """Run the checks until Ctrl-C or SIGTERM; print a line for each finding that changes."""
        changes, shown, self.json = Changes(), self.json, True  # `examine` prints nothing
        try:
            while True:
                findings = asyncio.run(self.examine(site))
                for line in watch_lines(
                    changes.since_last(findings), datetime.now(UTC), as_json=shown
                ):
                    print(line, flush=True)
                time.sleep(60 * self.watch)
                site = Site(self.config_file, self.person)  # it may have changed
        except KeyboardInterrupt:
            self.exit(0)
        raise SystemExit(0)

    async def examine(self, site: Site) -> list[Finding]:
        """Return all findings, in the order of the checks; printed one by one unless as JSON."""
        chosen = [check for check in all_checks() if not self.only or check.id in self.only]
        tasks = [asyncio.create_task(check.run(site, self.timeout)) for check in chosen]
        findings = []
        width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        for task in tasks:
            findings.append(await task)
            if not self.json:
                for line in lines(findings[-1], width, sys.stdout.isatty()):
                    print(line, flush=True)
        site.close()
        if not self.json:
            print(f"\n{summary(findings)}.")
        return findings
