"""Console script ``portal-run``: it starts a run of a notebook or script, lists runs, shows and
stops them.

It runs in a session's terminal or notebook. The session's server asks the portal for it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ...job_kernels.broker_client import VARIABLE as BROKER
from ...job_kernels.broker_client import Broker, BrokerError, PatientBroker
from .. import RunError, about
from ..asked_points import read_points
from ..kernel_choice import check_kernel, kernel_for, kernels_here
from ..plan import Plan, freeze
from ..search.options import add_options
from . import again, listing, resources, schedules
from .resources import whole

IN_JOB_KERNEL = "PORTAL_KERNEL"  # `job_kernels.starter.VARIABLE`
IN_RUN = "PORTAL_RUN"
_PATIENCE = 600.0  # seconds for which a new run's requests are repeated while the portal is away
_AT_ONCE = 1000
_RESUMES = 1000
_EPILOG = """\
portal-run list        your runs
portal-run show NAME   the points of a run
portal-run stop NAME   stop a run
portal-run again NAME  run the failed points again
portal-run repeat NAME run it again, exactly, as a new run

portal-run schedule NAME --at 02:00   repeat a run at a time of day
portal-run schedules                  your schedules
portal-run unschedule NAME            delete a schedule

Results are in runs/NAME/ next to the notebook or script.
"""


class Started(NamedTuple):
    """Run that the portal has. ``at_once``: how many points run at the same time at most;
    ``message``: what the portal says in addition, or ""; ``after``: the name of the run that it
    starts after, or ""."""

    plan: Plan
    at_once: int
    message: str
    after: str


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise RunError(f"{message[:1].upper()}{message[1:]}. See 'portal-run --help'.")


def parser(
    fields: resources.Fields = (), kind: type[argparse.ArgumentParser] = _Parser
) -> argparse.ArgumentParser:
    """Return the parser of the options with which a run is started, of the class ``kind``.
    ``fields``: those of resources (`resources.offered_fields`)."""
    options = kind(
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
        type=whole(1, 10_000),
        default=0,
        help="number of points of the grid, chosen at random",
    )
    options.add_argument("--seed", type=whole(0, 2**63 - 1), help="seed of the sample or search")
    add_options(options, whole)
    options.add_argument(
        "--at-once",
        type=whole(1, _AT_ONCE),
        default=10,
        help="maximum number of points that run at once (10)",
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
        type=whole(0, _RESUMES),
        default=0,
        help="how many times a point that saves checkpoints continues after its time limit (0)",
    )
    options.add_argument("--environment", help="environment; by default the session's")
    options.add_argument("--kernel", help="kernelspec; by default the notebook's")
    resources.add_options(options, fields)
    return options


def _kernels(
    options: argparse.Namespace, broker: Broker, environ: Mapping[str, str]
) -> Collection[str]:
    """Return the names of the kernels of the options' environment; () if they are not known. Raises
    BrokerError."""
    own = environ.get("PORTAL_ENVIRONMENT", "")
    if options.source.endswith(".py"):
        return ()
    if (options.environment or own) == own:
        return kernels_here()
    for item in broker.ask("GET", "/runs/choices").get("items") or ():
        if item.get("environment") == options.environment:
            named = item.get("kernels") or ()
            return {*named, *kernels_here(of_user=True)} if named else ()
    return ()


def prepare(
    options: argparse.Namespace, environ: Mapping[str, str], kernels: Collection[str] = ()
) -> tuple[Plan, dict[str, Any]]:
    """Freeze the run of these options; return its plan, and what the portal is asked for.
    ``kernels``: those of its environment, () if they are not known. Raises RunError."""
    source, name, points, seed, search, typed = read_points(options)
    if options.keep_failed and source.notebook is None:
        raise RunError("'--keep-failed' is for notebooks: a script has no kernel.")
    environment = options.environment or environ.get("PORTAL_ENVIRONMENT", "")
    kernel = options.kernel or kernel_for(source, environ)
    check_kernel(kernel, kernels)
    plan = freeze(
        source,
        points,
        name,
        kernel=kernel,
        environment=environment,
        resources=options.resources,
        seed=seed,
        search=search,
        typed=typed,
    )
    body = {
        **options.resources,
        "id": plan.id,
        "name": plan.name,
        "source": str(plan.source),
        "folder": str(plan.folder),
        "points": plan.points,
        "code_digest": plan.code_digest,
        "at_once": options.at_once,
    }
    if options.keep_failed:
        body["keep_failed"] = True
    if options.resumes:
        body["resumes"] = options.resumes
    if environment:
        body["environment"] = environment
    if search:
        body["search"] = search
    return plan, body


def start(argv: Sequence[str], broker: Broker, environ: Mapping[str, str]) -> str:
    """Start the run of the options ``argv``; return what to print. Raises RunError, BrokerError."""
    options = parser(resources.offered_fields(broker)).parse_args(argv)
    plan, at_once, message, after = begin(options, broker, environ)
    points = f"{plan.points:,} point{'s' * (plan.points != 1)}"
    waits = f"Starts:  once all points of '{after}' have succeeded"
    lines = [
        f"Run '{plan.name}': {points}, at most {at_once} at once.",
        *([waits] if after else ()),
        f"Results: {plan.folder}",
        f"States:  portal-run show {plan.name}",
    ]
    return "\n".join([*lines, message] if message else lines)


def begin(options: argparse.Namespace, broker: Broker, environ: Mapping[str, str]) -> Started:
    """Start the run of these options, for the command line and for JupyterLab's dialog. A run that
    is refused leaves no folder. Raises RunError, and BrokerError before anything is frozen."""
    before: dict[str, Any] = {}
    if options.after is not None:
        with about("after"):
            before = listing.named_run(listing.runs_of(broker), options.after)
    kernels = _kernels(options, broker, environ)
    plan, body = prepare(options, environ, kernels)
    if before:
        body["after"] = before["id"]
    if options.notify:
        body["notify"] = sorted(set(options.notify))
    try:
        answer = broker.ask("POST", "/runs", body)
        message = str(answer.get("message") or "")
    except BrokerError as error:
        if not _was_accepted(plan, broker, error):
            plan.remove()
            raise refused(error) from None
        message = str(error)
    except BaseException:  # Ctrl-C: the portal may have it, so the folder stays
        print(f"If the run was accepted: portal-run stop {plan.name}", file=sys.stderr)
        raise
    after = str(before.get("name") or "")
    return Started(plan, min(body["at_once"], plan.points), message, after)


def refused(error: BrokerError) -> RunError:
    """Return the portal's refusal, with the field that it is about."""
    refusal = RunError(str(error))
    refusal.field = error.field
    return refusal


def _was_accepted(plan: Plan, broker: Broker, error: BrokerError) -> bool:
    """Return True if the portal has the run although it was not said so. Raises RunError if that
    is not known: then the folder stays."""
    if error.status < 500:
        return False
    try:
        broker.ask("GET", f"/runs/{plan.id}")
        return True
    except BrokerError as second:
        if second.status == 404:
            return False
    raise RunError(
        f"{error} It is not known whether the run '{plan.name}' was accepted. Check 'portal-run "
        f"list' later. If the run is not listed, delete {plan.folder}."
    )


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
    for module in (listing, again, schedules):
        if argv[0] in module.COMMANDS:
            return module.run(argv, broker)
    # The id of a run is chosen here, so that a request that comes twice starts one run.
    patient = PatientBroker(environ[BROKER], _PATIENCE, lambda text: print(text, file=sys.stderr))
    return start(argv, patient, environ)


def _fields_for_help(environ: Mapping[str, str]) -> resources.Fields:
    try:
        return resources.offered_fields(Broker(environ[BROKER]))
    except (KeyError, BrokerError):
        return ()


def main() -> None:
    """Run the console script. Exits with 1 and a sentence on standard error if it fails."""
    try:
        print(run(sys.argv[1:], os.environ))
    except (RunError, BrokerError) as error:
        print(f"portal-run: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # | head
        os._exit(0)


if __name__ == "__main__":
    main()
