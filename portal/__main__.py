"""The ``portal`` command, whose subcommands are imported only on demand."""

from __future__ import annotations

import gc
import sys
from typing import Any

from .command import CommandGroup


class PortalCommand(CommandGroup):
    """Command ``portal SUBCOMMAND``, as run by people and unit files."""

    name = "portal"
    description = "The Data Scientist Portal."
    subcommands = {
        "courses": ("portal.courses.command.CoursesApp", "Courses as files: import and export."),
        "database": ("portal.store.command.DatabaseApp", "Look at the database, or upgrade it."),
        "demo": ("portal.demo.app.DemoApp", "Start the whole portal on this machine."),
        "doctor": ("portal.doctor.app.DoctorApp", "Check a site and say how to mend it."),
        "environments": (
            "portal.catalog.cli.environments.EnvironmentsApp",
            "Keep the catalog in git, check its files, test them.",
        ),
        "images": (
            "portal.catalog.cli.images.ImagesApp",
            "See which images nobody needs; unpack them on the nodes.",
        ),
        "service": ("portal.app.PortalService", "The web service that the Hub manages."),
    }

    def initialize(self, argv: Any = None) -> None:
        """Import the subcommand and read its configuration, without garbage collection meanwhile:
        imported objects stay, and scanning them took two fifths of the service's start."""
        gc.disable()
        try:
            super().initialize(argv)
        finally:
            gc.freeze()
            gc.enable()


def main() -> None:
    """Run the ``portal`` command."""
    PortalCommand.launch_instance(sys.argv[1:])


if __name__ == "__main__":
    main()
