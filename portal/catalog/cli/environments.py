"""``portal environments``: the catalog in git, and its tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traitlets import Bool, List, Unicode

from portal.command import CommandGroup, SiteCommand, flag, subcommands_of
from portal.setting import setting

from ..definitions.rules import CatalogRules
from ..files import EnvironmentCatalog
from ..versions.git_sync import WRITES, Exchange, Plan, Step, errors_of
from .testing import TestCommand


class CatalogCommand(SiteCommand):
    """Base of the subcommands, which read and write files only."""

    classes = [EnvironmentCatalog, CatalogRules]
    aliases = {**SiteCommand.aliases, "directory": "EnvironmentCatalog.directory"}
    takes = "a folder"

    def run(self) -> bool:
        """Run the subcommand on the site's catalog."""
        return self.act(self.catalog())

    def act(self, catalog: EnvironmentCatalog) -> bool:
        """Do what the subcommand is for; return True if all is well."""
        raise NotImplementedError

    def catalog(self) -> EnvironmentCatalog:
        """Return the site's catalog."""
        catalog = EnvironmentCatalog(parent=self)
        catalog.log.setLevel("CRITICAL")  # what it would write there is printed here
        return catalog

    @property
    def path(self) -> Path:
        """Path named on the command line. Raises InvalidRequest."""
        return Path(self.argument(f"Name {self.takes}", "PATH"))


class ExportCommand(CatalogCommand):
    """Command that writes the catalog's files into a folder."""

    name = "portal-environments-export"
    description = (
        "Write the catalog's files into a folder. Files changed there since the last export "
        "are kept."
    )
    aliases = {**CatalogCommand.aliases, "theirs": "ExportCommand.theirs"}

    theirs = setting(
        List(Unicode()),
        """Names of environments for which the catalog's file is used although both files were
        changed.""",
        "portal environments export --theirs=pytorch catalog/",
    )

    def act(self, catalog: EnvironmentCatalog) -> bool:
        self.path.mkdir(parents=True, exist_ok=True)
        exchange = Exchange(catalog, self.path)
        _print_errors(catalog.errors)
        conflicts = exchange.export(self.theirs)
        _print_conflicts(conflicts)
        print(f"{len(catalog.environments)} environments in {catalog.directory} → {self.path}")
        return not conflicts and not catalog.errors


class ImportCommand(CatalogCommand):
    """Command that brings a folder's files into the catalog."""

    name = "portal-environments-import"
    description = (
        "Import a folder's files into the catalog, all or none. Files changed on both sides since "
        "the last export or import are conflicts: they are shown, and nothing is imported."
    )
    aliases = {
        **CatalogCommand.aliases,
        "ours": "ImportCommand.ours",
        "theirs": "ImportCommand.theirs",
    }
    flags = {
        "dry-run": flag("ImportCommand.dry_run", "Show what would be done, and change nothing.")
    }

    dry_run = setting(
        Bool(False),
        "Print what would be done, and change nothing.",
        "portal environments import --dry-run catalog/",
    )
    ours = setting(
        List(Unicode()),
        """Names of environments for which the folder's file is used although both files were
        changed.""",
        "portal environments import --ours=pytorch catalog/",
    )
    theirs = setting(
        List(Unicode()),
        """Names of environments for which the catalog's file is kept although both files were
        changed.""",
        "portal environments import --theirs=pytorch catalog/",
    )

    def act(self, catalog: EnvironmentCatalog) -> bool:
        exchange = Exchange(catalog, self.path)
        if exchange.errors:
            _print_errors(exchange.errors)
            print("Nothing was imported.")
            return False
        plans = exchange.plans(self.ours, self.theirs)
        conflicts = [plan for plan in plans if plan.step is Step.CONFLICT]
        _print_conflicts(conflicts)
        for plan in plans:
            if plan.step not in (Step.SAME, Step.CONFLICT):
                print(f"{plan.name} {plan.step}")
        if conflicts:
            print(
                "Nothing was imported. For each name, use --ours=NAME (this folder's file) or "
                "--theirs=NAME (the catalog's), or export, merge and import again."
            )
            return False
        if not self.dry_run:
            exchange.carry_out(plans)
        written = sum(plan.step in WRITES for plan in plans)
        done = "would be written" if self.dry_run else "were written"
        print(f"{written} of {len(plans)} environments {done} to {catalog.directory}.")
        return True


class ValidateCommand(CatalogCommand):
    """Command that says what is wrong with a file or a folder of files."""

    name = "portal-environments-validate"
    description = "Check a file or a folder of files, and show each problem with its line."
    takes = "a file or a folder"

    def act(self, catalog: EnvironmentCatalog) -> bool:
        count, errors = errors_of(catalog, self.path)
        _print_errors(errors)
        if not errors:
            print(f"{self.path}: {count} environment{'' if count == 1 else 's'}, no problems")
        return not errors


class DiffCommand(CatalogCommand):
    """Command that shows how a folder's files differ from the catalog's."""

    name = "portal-environments-diff"
    description = "Show how a folder's files differ from the catalog's. Exit status 1 if they do."

    def act(self, catalog: EnvironmentCatalog) -> bool:
        exchange = Exchange(catalog, self.path)
        _print_errors(exchange.errors)
        texts = [plan.difference() for plan in exchange.plans()]
        print("".join(texts), end="")
        return not any(texts) and not exchange.errors


class EnvironmentsApp(CommandGroup):
    """``portal environments SUBCOMMAND``."""

    name = "portal-environments"
    description = "Export, import, validate, compare and test the catalog of environments."
    subcommands = subcommands_of(
        {
            "export": ExportCommand,
            "import": ImportCommand,
            "validate": ValidateCommand,
            "diff": DiffCommand,
            "test": TestCommand,
        }
    )


def _print_errors(errors: Any) -> None:
    for error in errors:
        print(error)


def _print_conflicts(plans: list[Plan]) -> None:
    for plan in plans:
        print(f"{plan.name} {plan.step}, in the catalog and in {plan.folder.path}:")
        print(plan.difference(), end="")
