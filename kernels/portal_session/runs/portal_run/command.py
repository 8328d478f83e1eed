"""Console script ``portal-run``: it starts a run of a notebook or script, lists runs, shows and
stops them.

It runs in a session's terminal or notebook. The session's server asks the portal for it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ...job_kernels.broker_client import VARIABLE as BROKER
from ...job_kernels.broker_client import Broker
from ...portal_error import Patience, PortalError
from .. import RunError
from ..archive import command as archive
from ..request import AT_ONCE, LIMITS, RunRequest
from ..search.options import add_options
from ..start import start as start_run
from . import again, listing, resources, schedules

IN_JOB_KERNEL = "PORTAL_KERNEL"  # `job_kernels.starter.VARIABLE`
IN_RUN = "PORTAL_RUN"
_PATIENCE = 600.0  # seconds for which a new run's requests are repeated while the portal is away
_EPILOG = """\
portal-run list        your runs
portal-run show NAME   the points of a run
portal-run stop NAME   stop a run
portal-run again NAME  run the failed points again
portal-run repeat NAME run it again, exactly, as a new run
portal-run archive NAME one file with its files, checksums and citation metadata

portal-run schedule NAME --at 02:00   repeat a run at a time of day
portal-run schedules                  your schedules
portal-run unschedule NAME            delete a schedule

Results are in runs/NAME/ next to the notebook or script.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise RunError(f"{message[:1].upper()}{message[1:]}. See 'portal-run --help'.")


def _whole(field: str) -> Callable[[str], int]:
    """Return the reader of a number of a request, for argparse."""
    return resources.reader(*LIMITS[field])


def parser(fields: resources.Fields = ()) -> argparse.ArgumentParser:
    """Return the parser of the options with which a run is started; their names are those of a
    RunRequest. ``fields``: those of resources (`resources.offered_fields`)."""
    options = _Parser(
        prog="portal-run",
        description="Execute a notebook or a Python script once for each set of parameters, as "
        "one Slurm array job.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("source", help="notebook (.ipynb) or script (.py)")
    options.add_argument("--name", help="name of the run; by default the file's")
    options.add_argument(
        "--set",
        dest="values",
        metavar="NAME=VALUE,VALUE",
        action="append",
        default=[],
        help="values of a parameter; several make a grid. A JSON list for values with commas",
    )
    options.add_argument(
        "--list", dest="file", metavar="FILE", help="points: a .csv file, or a .json list"
    )
    options.add_argument(
        "--sample",
        type=_whole("sample"),
        default=0,
        help="number of points of the grid, chosen at random",
    )
    options.add_argument("--seed", type=_whole("seed"), help="seed of the sample or search")
    add_options(options, _whole)
    options.add_argument(
        "--at-once",
        type=_whole("at_once"),
        default=AT_ONCE,
        help=f"maximum number of points that run at once ({AT_ONCE})",
    )
    options.add_argument(
        "--keep-failed",
        action="store_true",
        help="keep the kernel of a failed cell for ten minutes, to inspect its variables",
    )
    options.add_argument(
        "--after", metavar="RUN", help="start once all points of this other run have succeeded"
    )
    options.add_argument(
        "--notify",
        choices=("end", "failure"),
        action="append",
        default=[],
        help="mail at the end of the run, or at its first failed point; several are possible",
    )
    options.add_argument(
        "--resume",
        dest="resumes",
        metavar="N",
        type=_whole("resumes"),
        default=0,
        help="how many times a point that saves checkpoints continues after its time limit (0)",
    )
    options.add_argument(
        "--ranks",
        metavar="N",
        type=_whole("ranks"),
        default=0,
        help="number of processes on each node that execute a script together; by default one for "
        "each GPU with --nodes, else one",
    )
    options.add_argument("--environment", help="environment; by default the session's")
    options.add_argument("--kernel", help="kernelspec; by default the notebook's")
    options.add_argument(
        "--project", default="", help="project that the run is for; by default the session's"
    )
    resources.add_options(options, fields)
    return options


def start(argv: Sequence[str], broker: Patience, environ: Mapping[str, str]) -> str:
    """Start the run of the options ``argv``; return what to print. Raises RunError, PortalError."""
    request = request_of(parser(resources.offered_fields(broker)).parse_args(argv))
    plan, at_once, message, after = start_run(request, broker, environ)
    points = f"{plan.points:,} point{'s' * (plan.points != 1)}"
    waits = f"Starts:  once all points of '{after}' have succeeded"
    lines = [
        f"Run '{plan.name}': {points}, at most {at_once} at once.",
        *([waits] if after else ()),
        f"Results: {plan.folder}",
        f"States:  portal-run show {plan.name}",
    ]
    return "\n".join([*lines, message] if message else lines)


def request_of(options: argparse.Namespace) -> RunRequest:
    """Return the request of these options. Raises RunError."""
    asked = {**vars(options), "values": assigned(options.values)}
    asked["source"] = Path(options.source).expanduser()
    asked["file"] = Path(options.file).expanduser() if options.file else None
    return RunRequest(**asked)


def assigned(assignments: Sequence[str]) -> dict[str, str]:
    """Return the texts by parameter of ``NAME=VALUE,VALUE``. Raises RunError."""
    texts: dict[str, str] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise RunError(f"'{assignment[:100]}' sets nothing. Write NAME=VALUE,VALUE.")
        if name in texts:
            raise RunError(f"'{name}' is set twice. Write its values as {name}=VALUE,VALUE.")
        texts[name] = text
    return texts


def run(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Execute a command line; return what to print. Raises RunError, and SystemExit for help."""
    if not argv or argv[0] in ("-h", "--help"):
        parser(_fields_for_help(environ)).parse_args(["--help"])
    if environ.get(IN_RUN):
        raise RunError("A point of a run cannot start runs. Start them in a session.")
    if environ.get(IN_JOB_KERNEL):
        raise RunError(
            "This notebook's kernel runs in its own Slurm job, without the session's server. Use "
            "portal-run in a terminal of the session."
        )
    if not environ.get(BROKER):
        raise RunError("portal-run only works in a session of the portal with JupyterLab.")
    broker = Broker(environ[BROKER])
    for module in (listing, again, schedules, archive):
        if argv[0] in module.COMMANDS:
            return module.run(argv, broker)
    # The id of a run is chosen here, so that a request that comes twice starts one run.
    patient = Patience(broker.ask, _PATIENCE, lambda text: print(text, file=sys.stderr))
    return start(argv, patient, environ)


def _fields_for_help(environ: Mapping[str, str]) -> resources.Fields:
    try:
        return resources.offered_fields(Broker(environ[BROKER]))
    except (KeyError, PortalError):
        return ()


def main() -> None:
    """Run the console script. Exits with 1 and a sentence on standard error if it fails."""
    try:
        print(run(sys.argv[1:], os.environ))
    except (RunError, PortalError) as error:
        print(f"portal-run: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # | head
        os._exit(0)


if __name__ == "__main__":
    main()
