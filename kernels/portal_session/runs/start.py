"""Start of a run: it is frozen, and the portal is asked for its job. For JupyterLab's dialog the
session's server starts it, for the command line the command's own process."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..portal_error import Patience, PortalError
from . import RunError, about
from .asked_points import read_points
from .kernel_choice import check_kernel, kernel_for, kernels_here
from .own_runs import named_run, runs_of
from .plan import Plan, freeze
from .request import RunRequest


class Started(NamedTuple):
    """Run that the portal has."""

    plan: Plan
    at_once: int  # how many points run at the same time at most
    message: str  # what the portal says in addition, or ""
    after: str  # name of the run that it starts after, or ""


def start(request: RunRequest, portal: Patience, environ: Mapping[str, str]) -> Started:
    """Start a run. ``portal`` is asked at the paths of the session's broker (`routes`). A run that
    is refused leaves no folder. Raises RunError, and PortalError before anything is frozen."""
    before: dict[str, Any] = {}
    if request.after is not None:
        with about("after"):
            before = named_run(runs_of(portal), request.after)
    plan, body = prepare(request, environ, _kernels(request, portal, environ))
    if before:
        body["after"] = before["id"]
    try:
        answer = portal.ask("POST", "/runs", body)
        message = str(answer.get("message") or "")
    except PortalError as error:
        if not _was_accepted(plan, portal, error):
            plan.remove()
            raise refused(error) from None
        message = str(error)
    except BaseException:  # Ctrl-C: the portal may have it, so the folder stays
        print(f"If the run was accepted: portal-run stop {plan.name}", file=sys.stderr)
        raise
    after = str(before.get("name") or "")
    return Started(plan, min(request.at_once, plan.points), message, after)


def prepare(
    request: RunRequest, environ: Mapping[str, str], kernels: Collection[str] = ()
) -> tuple[Plan, dict[str, Any]]:
    """Freeze a run; return its plan, and what the portal is asked for. ``kernels``: those of its
    environment, () if they are not known. Raises RunError."""
    source, name, points, seed, search, typed = read_points(request)
    if request.keep_failed and source.notebook is None:
        raise RunError("'--keep-failed' is for notebooks: a script has no kernel.")
    if request.ranks > 1 and source.notebook is not None:
        with about("ranks"):
            raise RunError(
                "A notebook has one kernel, and no ranks. Write what they do into a script (.py)."
            )
    environment = request.environment or environ.get("PORTAL_ENVIRONMENT", "")
    kernel = request.kernel or kernel_for(source, environ)
    check_kernel(kernel, kernels)
    plan = freeze(
        source,
        points,
        name,
        id=request.id,
        kernel=kernel,
        environment=environment,
        resources=request.resources,
        seed=seed,
        search=search,
        typed=typed,
    )
    body = {
        **request.resources,
        "id": plan.id,
        "name": plan.name,
        "source": str(plan.source),
        "folder": str(plan.folder),
        "points": plan.points,
        "code_digest": plan.code_digest,
        "at_once": request.at_once,
    }
    more = {
        "keep_failed": request.keep_failed,
        "resumes": request.resumes,
        "ranks": request.ranks,
        "environment": environment,
        "search": search,
        "notify": sorted(set(request.notify)),
        "project": request.project,
    }
    return plan, {**body, **{name: value for name, value in more.items() if value}}


def _kernels(request: RunRequest, portal: Patience, environ: Mapping[str, str]) -> Collection[str]:
    """Return the names of the kernels of the request's environment; () if they are not known.
    Raises PortalError."""
    own = environ.get("PORTAL_ENVIRONMENT", "")
    if request.source.suffix == ".py":
        return ()
    if (request.environment or own) == own:
        return kernels_here()
    for item in portal.ask("GET", "/runs/choices").get("items") or ():
        if item.get("environment") == request.environment:
            named = item.get("kernels") or ()
            return {*named, *kernels_here(of_user=True)} if named else ()
    return ()


def refused(error: PortalError) -> RunError:
    """Return the portal's refusal, with the field that it is about."""
    refusal = RunError(str(error))
    refusal.field = error.field
    return refusal


def _was_accepted(plan: Plan, portal: Patience, error: PortalError) -> bool:
    """Return True if the portal has the run although it was not said so. Raises RunError if that
    is not known: then the folder stays."""
    if error.status < 500:
        return False
    try:
        portal.ask("GET", f"/runs/{plan.id}")
        return True
    except PortalError as second:
        if second.status == 404:
            return False
    raise RunError(
        f"{error} It is not known whether the run '{plan.name}' was accepted. Check 'portal-run "
        f"list' later. If the run is not listed, delete {plan.folder}."
    )
