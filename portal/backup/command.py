"""``portal backup`` and ``portal restore``: commands for admins and the timer."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from portal.command import SiteCommand
from portal.doctor.site import Site, default_file
from portal.errors import InvalidRequest, PortalError

from .archive import Reader
from .folder import keep_newest
from .inventory import enter_hub_directory, inventory_of
from .jobs import jobs_after
from .making import make
from .manifest import Manifest
from .outcome import note_outcome
from .restoring import Restore
from .sealing import Seal, asked, read_passphrase
from .variables import adopt_variables


class ArchiveCommand(SiteCommand):
    """Base class of the two. Their options are those of one call, and no settings: in a
    configuration file they would apply to the next call too. The site's file is not read here: a
    restore works without one."""

    classes: Any = []

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line; end with a sentence for one that is wrong."""
        self.options = self.parser().parse_args(argv)
        # systemd stops a unit so: what was begun is removed.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: sys.exit(128 + number))

    @classmethod
    def parser(cls) -> argparse.ArgumentParser:
        """Return the parser of the command line."""
        parser = argparse.ArgumentParser(
            prog=str(cls.name).replace("-", " "),
            description=str(cls.description),
            allow_abbrev=False,
        )
        parser.add_argument(
            "--passphrase-file",
            metavar="FILE",
            type=Path,
            help="file with the passphrase of the secrets, mode 0600; without it, a terminal is "
            "asked",
        )
        cls.define(parser)
        return parser

    @classmethod
    def define(cls, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options."""
        raise NotImplementedError

    @staticmethod
    def site(config_file: str, directory: Path | None = None) -> Site:
        """Return the site, read with the variables of its Hub. Raises Conflict."""
        path = Path(config_file).absolute() if config_file else default_file()
        for problem in adopt_variables(path, directory):
            print(problem, file=sys.stderr)
        return Site(str(path))

    def passphrase(self, question: str, *, twice: bool) -> str:
        """Return the passphrase of the file or the terminal; "" if there is none. Raises
        InvalidRequest."""
        if self.options.passphrase_file is not None:
            return read_passphrase(self.options.passphrase_file)
        return asked(question, twice=twice)


class BackupApp(ArchiveCommand):
    """Command that copies databases, secrets, configuration and catalog of a site into one file,
    while everything runs."""

    name = "portal-backup"
    description = (
        "Copy databases, secrets, configuration and catalog into one file, while everything runs. "
        "Run it as the Hub's account."
    )

    @classmethod
    def define(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "target",
            metavar="TARGET",
            type=Path,
            help="file to write, which must not exist; or a folder, for a file named by the time",
        )
        parser.add_argument(
            "-f", "--config", metavar="FILE", default="", help="the Hub's configuration file"
        )
        parser.add_argument(
            "--keep",
            metavar="N",
            type=_positive,
            help="keep the N newest backups of the folder TARGET, and remove older ones",
        )

    def run(self) -> bool:
        """Make the backup. Raises PortalError."""
        os.umask(0o077)
        logging.getLogger("portal.doctor").setLevel(logging.CRITICAL)
        target = self.options.target.absolute()
        if self.options.keep is not None and not target.is_dir():
            raise InvalidRequest(f"--keep needs a folder, and {target} is none.")
        passphrase = self.passphrase("Passphrase (empty: secrets are left out): ", twice=True)
        site = self.site(self.options.config)
        directory = enter_hub_directory(site)
        try:
            try:
                found = inventory_of(site)
            finally:
                site.close()
            found.directory = directory
            manifest = make(found, site.config_file, target, passphrase)
        except PortalError as error:
            note_outcome(site, target, error)
            raise
        note_outcome(site, target, None)
        for word in _summary(manifest):
            print(word)
        for left in manifest.left_out:
            print(f"Not in the backup: {left.path}: {left.why}.", file=sys.stderr)
        if self.options.keep is not None:
            for path in keep_newest(target, self.options.keep):
                print(f"Removed {path}.")
        return True


class RestoreApp(ArchiveCommand):
    """Command that puts everything of a backup back in its place."""

    name = "portal-restore"
    description = (
        "Put the databases and files of a backup back in their places. Stop the Hub first, and run "
        "this as root or as the Hub's account."
    )

    @classmethod
    def define(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="a backup")
        parser.add_argument(
            "--dry-run", action="store_true", help="only show what would be replaced"
        )
        parser.add_argument(
            "--without-secrets",
            action="store_true",
            help="leave the secrets of this machine as they are; no passphrase is needed",
        )

    def run(self) -> bool:
        """Restore. Raises PortalError."""
        logging.getLogger("portal.doctor").setLevel(logging.CRITICAL)
        reader = Reader(self.options.file.absolute())
        try:
            restore = Restore(reader, self._seal(reader.manifest))
            for word in _summary(reader.manifest):
                print(word)
            for line in restore.plan():
                print(f"  {line}")
            sys.stdout.flush()
            restore.verify()
            if self.options.dry_run:
                print("Nothing was changed (--dry-run).")
                return True
            restore.run()
        finally:
            reader.close()
        print("Restored.")
        folder = reader.manifest.directory
        site = self.site(reader.manifest.config_file, Path(folder) if folder else None)
        try:
            for line in jobs_after(site, reader.manifest.account):
                print(line)
        finally:
            site.close()
        return True

    def _seal(self, manifest: Manifest) -> Seal | None:
        if not manifest.salt or self.options.without_secrets:
            return None
        passphrase = self.passphrase("Passphrase of the backup: ", twice=False)
        if not passphrase:
            raise InvalidRequest(
                "The secrets of this backup are encrypted. Name the file of its passphrase, "
                "--passphrase-file=FILE, or leave them as they are: --without-secrets."
            )
        return Seal(passphrase, bytes.fromhex(manifest.salt))


def _summary(manifest: Manifest) -> list[str]:
    secrets = sum(kept.sealed for kept in manifest.files)
    return [
        f"Backup of {manifest.made_at} by version {manifest.portal}: {len(manifest.databases)} "
        f"databases, {len(manifest.files)} files, of which {secrets} are encrypted secrets.",
        *([] if manifest.salt else ["It has no secrets: it was made without a passphrase."]),
    ]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number
