"""The ``portal`` command: subcommands are loaded only when they are asked for."""

from __future__ import annotations

import sys

from traitlets.config import Application

from . import __version__


class PortalCommand(Application):
    """``portal SUBCOMMAND``: what a person or a unit file starts."""

    name = "portal"
    version = __version__
    description = "The Data Scientist Portal."
    subcommands = {
        "database": ("portal.store.command.DatabaseApp", "Look at the database, or upgrade it."),
        "demo": ("portal.demo.app.DemoApp", "Start the whole portal on this machine."),
        "doctor": ("portal.doctor.app.DoctorApp", "Check a site and say how to mend it."),
        "service": ("portal.app.PortalService", "The web service that the Hub manages."),
    }

    def start(self) -> None:
        """Run the subcommand, or print the help where none is named."""
        if self.subapp is None:
            self.print_help()
            self.exit(0 if not self.extra_args else 2)
        super().start()


def main() -> None:
    """Entry point of the ``portal`` script."""
    PortalCommand.launch_instance(sys.argv[1:])


if __name__ == "__main__":
    main()
