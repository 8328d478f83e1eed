"""The ``portal`` command, whose subcommands are imported only on demand."""

from __future__ import annotations

import gc
import sys
from typing import Any

from .command import CommandGroup


class PortalCommand(CommandGroup):
    """Command ``portal SUBCOMMAND``, for admins and unit files."""

    name = "portal"
    description = "The Data Scientist Portal."
    subcommands = {
        "backup": ("portal.backup.command.BackupApp", "Copy a site's state into one file."),
        "courses": ("portal.courses.command.CoursesApp", "Import and export courses as files."),
        "database": ("portal.store.command.DatabaseApp", "Inspect or upgrade the database."),
        "demo": ("portal.demo.app.DemoApp", "Run the whole portal on this machine."),
        "doctor": ("portal.doctor.app.DoctorApp", "Check a site and suggest fixes."),
        "environments": (
            "portal.catalog.cli.environments.EnvironmentsApp",
            "Import, export, check and test the catalog's environments.",
        ),
        "gateway": (
            "portal.gateway.command.GatewayApp",
            "Run the gateway of endpoints, in a process of its own.",
        ),
        "images": (
            "portal.catalog.cli.images.ImagesApp",
            "List images, remove unused ones, unpack them on the nodes.",
        ),
        "models": (
            "portal.work.endpoint.catalog.command.ModelsApp",
            "Check the files of the catalog of models.",
        ),
        "proxy": ("portal.proxy.ProxyApp", "Run the proxy, in a process of its own."),
        "restore": ("portal.backup.command.RestoreApp", "Put a backup back in its place."),
        "setup": ("portal.setup.command.SetupApp", "Set the portal up on a cluster's submit host."),
        "service": ("portal.app.PortalService", "Run the web service; the Hub starts it."),
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
