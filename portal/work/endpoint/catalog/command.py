"""``portal models``: the files of the catalog of models."""

from __future__ import annotations

from pathlib import Path

from portal.command import CommandGroup, SiteCommand, subcommands_of

from .files import ModelCatalog


class ValidateCommand(SiteCommand):
    """Command that says what is wrong with a folder of models."""

    name = "portal-models-validate"
    description = "Check a folder of models, and show each problem with its line."

    def run(self) -> bool:
        """Print what is wrong; return True if nothing is. Raises InvalidRequest."""
        folder = Path(self.argument("Name a folder", "PATH"))
        if not folder.is_dir():
            print(f"{folder}: not a folder")
            return False
        catalog = ModelCatalog(str(folder))
        catalog.load_now()
        for error in catalog.errors:
            print(error)
        if not catalog.errors:
            count = len(catalog.models)
            print(f"{folder}: {count} model{'' if count == 1 else 's'}, no problems")
        return not catalog.errors


class ModelsApp(CommandGroup):
    """``portal models SUBCOMMAND``."""

    name = "portal-models"
    description = "Check the files of the catalog of models."
    subcommands = subcommands_of({"validate": ValidateCommand})
