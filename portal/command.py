"""Base classes of admin commands: reading of the site's configuration, and errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NoReturn

from traitlets import Unicode
from traitlets.config import Application, Config, catch_config_error

from . import __version__
from .errors import ConfigurationError, InvalidRequest, PortalError
from .former_settings import warn_of_former

_SITE_FILE = Path("/etc/data-scientist-portal/jupyterhub_config.py")


class SiteCommand(Application):
    """Base class of subcommands that read the Hub's configuration file."""

    version = __version__
    aliases = {"f": "SiteCommand.config_file", "config": "SiteCommand.config_file"}
    raise_config_file_errors = True

    config_file = Unicode(
        "",
        help="""
        The Hub's configuration file. Empty: the site's file in /etc/data-scientist-portal, if it
        exists.

        Example::

            portal database status --config=/etc/data-scientist-portal/jupyterhub_config.py
        """,
    ).tag(config=True)

    @catch_config_error
    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line and the configuration file."""
        super().initialize(argv)
        try:
            self._read_config()
        except PortalError as error:
            self.end(error)

    def update_config(self, config: Config) -> None:
        """Merge ``config``: with present names of settings, and without those that are fixed."""
        warn_of_former(config, self.log)
        super().update_config(config)

    def start(self) -> None:
        """Run the subcommand; exit with status 1 if something is not as it should be."""
        try:
            good = self.run()
        except PortalError as error:
            self.end(error)
        self.exit(0 if good else 1)

    def run(self) -> bool:
        """Do what the subcommand is for; return True if all is well. Raises PortalError."""
        raise NotImplementedError

    def argument(self, demand: str, word: str) -> str:
        """Return the only argument on the command line.

        Raises InvalidRequest with the ``demand``, and ``word`` in the place of the argument.
        """
        if len(self.extra_args) != 1:
            raise InvalidRequest(f"{demand}: {self.name.replace('-', ' ')} {word}")
        return str(self.extra_args[0])

    def end(self, error: PortalError) -> NoReturn:
        """Print the error's message and exit with status 1."""
        print(error.message, file=sys.stderr)
        self.exit(1)
        raise SystemExit(1)  # for mypy

    def _read_config(self) -> None:
        path = Path(self.config_file) if self.config_file else _SITE_FILE
        if not path.is_file():
            if self.config_file:
                raise ConfigurationError(f"{path} does not exist.")
            return
        try:
            self.load_config_file(str(path))
        except Exception as error:  # the file is the site's own Python: anything can come out
            raise ConfigurationError(f"{path}: {type(error).__name__}: {error}") from None
        self.update_config(self.cli_config)  # the command line wins


def flag(target: str, help: str, value: bool = True) -> tuple[dict[str, dict[str, bool]], str]:
    """Return traitlets' entry of an option without a value, which sets ``target`` (Class.setting)
    to ``value``."""
    kind, _, name = target.partition(".")
    return {kind: {name: value}}, help


def subcommands_of(commands: dict[str, type[Application]]) -> dict[str, Any]:
    """Return traitlets' table of subcommands by name, each with its own description."""
    return {name: (command, command.description) for name, command in commands.items()}


class CommandGroup(Application):
    """Base class of commands that only have subcommands."""

    version = __version__

    def start(self) -> None:
        """Run the subcommand, or print the help if none is named."""
        if self.subapp is None:
            self.print_help()
            self.exit(0 if not self.extra_args else 2)
        super().start()
