"""Site under examination: its configuration, read as the Hub reads it, without starting it."""

from __future__ import annotations

import contextlib
import getpass
import io
import logging
import os
import pwd
from functools import cached_property
from pathlib import Path
from typing import Any

from jupyterhub.app import JupyterHub
from traitlets import HasTraits, TraitError
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

import portal.work  # noqa: F401  adds the kinds of work
from portal.catalog import EnvironmentCatalog
from portal.errors import ConfigurationError, PortalError
from portal.features import add_works
from portal.former_settings import drop_fixed, rename
from portal.paths import data_path
from portal.slurm import Cluster, SlurmRunner

SITE_FILE = Path("/etc/data-scientist-portal/jupyterhub_config.py")


class Blocked(PortalError):
    """Check that cannot be made because of what another check reports already."""

    code = "blocked"


class Site:
    """Site that is checked. ``person``: whose rights are tried; empty for the first that sudo
    names."""

    def __init__(self, config_file: str = "", person: str = "") -> None:
        self.config_file = Path(config_file).absolute() if config_file else default_file()
        self.person = person
        self.account = _account()
        self.is_root = os.geteuid() == 0
        self.log = logging.getLogger("portal.doctor")
        self.trouble = ""
        self.renamed: list[tuple[str, str]] = []  # settings by former and present name
        self.fixed: list[str] = []  # settings that the file sets without effect
        try:
            self.config = self._read()
            self.renamed = rename(self.config)
            self.fixed = drop_fixed(self.config)
            add_works(self.config)
        except Exception as error:  # the file is the site's own Python: it may raise anything
            self.trouble = f"{self.config_file}: {type(error).__name__}: {error}"
            self.config = Config()
        if not self.trouble:
            self._hub  # noqa: B018  records a value that the Hub refuses

    @property
    def hub(self) -> JupyterHub:
        """Application object of the Hub, configured and never started. Raises Blocked."""
        if self.trouble:
            raise Blocked("the Hub's configuration has an error (reported above)")
        return self._hub

    @cached_property
    def _hub(self) -> JupyterHub | None:
        try:
            return JupyterHub(config=self.config, log=self.log)
        except (TraitError, ImportError) as error:
            self.trouble = f"{self.config_file}: {error}"
            return None

    def of_hub(self, trait: str) -> Any:
        """Return a setting of the Hub. Raises Blocked, or ConfigurationError if its value is
        refused."""
        try:
            return getattr(self.hub, trait)
        except (TraitError, ImportError) as error:
            raise ConfigurationError(f"c.JupyterHub.{trait}: {error}") from None

    def setting(self, kind: type[HasTraits], trait: str) -> Any:
        """Return the value that an instance of ``kind`` would have, without creating one."""
        for parent in kind.__mro__:
            section = self.config.get(parent.__name__)
            if section and trait in section:
                return section[trait]
        return kind.class_traits()[trait].default(None)

    @cached_property
    def spawner(self) -> type[HasTraits]:
        """Class of the spawner. Raises ConfigurationError."""
        return self.of_hub("spawner_class")

    @cached_property
    def authenticator(self) -> type[HasTraits]:
        """Class of the authenticator. Raises ConfigurationError."""
        return self.of_hub("authenticator_class")

    @cached_property
    def runner(self) -> SlurmRunner:
        return SlurmRunner(config=self.config, log=self.log)

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(config=self.config, runner=self.runner, log=self.log)

    @cached_property
    def catalog(self) -> EnvironmentCatalog:
        return EnvironmentCatalog(config=self.config, log=self.log)

    def close(self) -> None:
        """Release the threads of the Slurm runner."""
        if "runner" in self.__dict__:
            self.runner.close()

    def _read(self) -> Config:
        if not self.config_file.is_file():
            raise ConfigurationError("no such file; pass one with -f")
        # A configuration file may print; the output of --json must stay JSON.
        with contextlib.redirect_stdout(io.StringIO()):
            loader = PyFileConfigLoader(self.config_file.name, str(self.config_file.parent))
            return loader.load_config()


def default_file() -> Path:
    """Return the site's configuration file, else the one that comes with the portal."""
    if SITE_FILE.is_file():
        return SITE_FILE
    return data_path("deploy") / "jupyterhub_config.py"


def _account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return getpass.getuser()
