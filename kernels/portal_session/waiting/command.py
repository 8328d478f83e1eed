"""Console script ``portal-why``: why the GPU of this session waits, in a terminal or notebook."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..job_kernels.broker_client import VARIABLE, Broker
from ..portal_error import PortalError

# As in `waiting`, which is not imported here: it brings the server.
SECONDS, SHORTEST, LONGEST = 5, 2, 20


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    broker: Callable[[str], Any] = Broker,
) -> str:
    """Execute a command line; return what to print. ``tell`` says that it begins. Raises
    PortalError, and SystemExit for help and a wrong option."""
    options = argparse.ArgumentParser(
        prog="portal-why",
        description="Why is my GPU waiting? Looks for some seconds at what the programs of this "
        "session do: compute, read files, or wait for the network. Run it while you train.",
        allow_abbrev=False,
    )
    options.add_argument(
        "--seconds",
        type=int,
        default=SECONDS,
        choices=range(SHORTEST, LONGEST + 1),
        metavar="N",
        help=f"how long to look, {SHORTEST} to {LONGEST} ({SECONDS})",
    )
    seconds = options.parse_args(argv).seconds
    if not environ.get(VARIABLE):
        raise PortalError("portal-why only works in a session of the portal with JupyterLab.")
    tell(f"Looking at the programs of this session for {seconds} seconds …")
    answer = broker(environ[VARIABLE]).ask("POST", "/waiting", {"seconds": seconds})
    lines = [str(answer.get("sentence") or "")]
    lines += [str(answer["advice"])] if answer.get("advice") else []
    lines = [textwrap.fill(line, 100, break_on_hyphens=False) for line in lines]
    command = [f"portal-pack {shlex.quote(str(answer['folder']))}"] if answer.get("pack") else []
    return "\n".join(lines + command)


def main() -> None:
    """Run the console script. Exits with 1 and a sentence on standard error if it fails."""
    try:
        print(run(sys.argv[1:], os.environ, lambda text: print(text, file=sys.stderr)))
    except PortalError as error:
        print(f"portal-why: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
