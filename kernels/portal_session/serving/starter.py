"""Starter: the program of a replica's job (``python3 -I -m portal_session.serving.starter``)."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from .. import places
from ..kernels.shell import set_shell
from ..service import Address, Service
from .definition import BadDefinition, Definition

_PATH = "session/endpoint"


def main() -> None:
    """Run the job's replica. Exits with 72 and a sentence if that is impossible, with 1 and the
    end of its log if the endpoint's program keeps dying."""
    places.set_places(os.environ)
    set_shell(os.environ)
    try:
        definition = Definition.from_environ(os.environ)
        address = Address.from_environ(os.environ)
        if address is None:
            raise BadDefinition("The job was not told where the portal's service is.")
        service = Service(address, os.environ)
        from .replica import Replica, ReplicaError
    except (BadDefinition, ImportError) as error:
        print(f"This job cannot serve its endpoint: {error}", file=sys.stderr)
        raise SystemExit(72) from error

    def report(told: dict[str, Any]) -> None:
        service.ask("PUT", _PATH, told)

    async def run() -> None:
        await Replica(definition, os.environ, report).run()

    try:
        asyncio.run(run())
    except (ReplicaError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
