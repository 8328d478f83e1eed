"""Options of ``portal-serve NAME``, and the requests that they make."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...job_kernels.broker_client import Broker
from ...runs import RunError
from ...runs.own_runs import named_run, runs_of
from ...runs.portal_run import resources
from . import ServeError

_EPILOG = """\
portal-serve list                    your endpoints, and those that you may use
portal-serve catalog                 models that the site offers
portal-serve show NAME               versions and replicas of an endpoint
portal-serve shares NAME 1=90 2=10   divide the traffic among versions; 1=100 rolls back
portal-serve delete NAME             delete an endpoint

Examples:
portal-serve sentences --model all-minilm-l6-v2
portal-serve digits --run digits --point best --path /predict -- {python} ~/serve.py {socket}
portal-serve digits --everyone --least 1
"""
BEST = "best"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ServeError(f"{message[:1].upper()}{message[1:]}. See 'portal-serve --help'.")


def parser(fields: resources.Fields = ()) -> argparse.ArgumentParser:
    """Return the parser. ``fields``: those of resources (`resources.offered_fields`)."""
    options = _Parser(
        prog="portal-serve",
        usage="portal-serve NAME [options] [-- COMMAND …]",
        description="Serve a model under an address of the portal, or change how it is served. A "
        "source adds a version: --model, --run, or a command, in which {socket} is the Unix socket "
        "that it must listen on and {python} the environment's Python.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("name", help="name of the endpoint: lowercase letters, digits and dashes")
    version = options.add_argument_group("a new version")
    version.add_argument("--model", help="model of the catalog; what is not given is its")
    version.add_argument("--run", help="run that the model comes from, by name")
    version.add_argument("--point", default=BEST, help="its point; by default the search's best")
    version.add_argument(
        "--folder", help="folder in which the command starts; by default the run's"
    )
    version.add_argument("--environment", help="environment; by default the session's")
    version.add_argument("--health", metavar="PATH", help="answers once it is loaded (/health)")
    version.add_argument(
        "--path",
        dest="paths",
        metavar="PREFIX",
        action="append",
        help="paths that are let through, by their beginning; by default all",
    )
    version.add_argument(
        "--example",
        metavar="JSON",
        help='request that each replica must answer before others: {"path": "/v1/…", "method": '
        '"POST", "body": {…}, "contains": "…"}',
    )
    version.add_argument(
        "--share", type=resources.reader(0, 100), help="of the traffic in percent (100)"
    )
    endpoint = options.add_argument_group("the endpoint")
    whole = resources.reader(0, 1_000_000)
    endpoint.add_argument("--least", type=whole, help="replicas at least; 0: it sleeps when unused")
    endpoint.add_argument("--most", type=whole, help="replicas at most")
    endpoint.add_argument("--target", type=whole, help="requests for one replica at a time")
    endpoint.add_argument("--idle", type=whole, help="seconds unused until it sleeps")
    endpoint.add_argument("--user", dest="users", action="append", help="user who may use it")
    endpoint.add_argument(
        "--group",
        dest="groups",
        action="append",
        help="group that may use it, of the directory or of a space",
    )
    endpoint.add_argument(
        "--project",
        help="project that a new endpoint is served for; by default the session's; '' for yourself",
    )
    endpoint.add_argument(
        "--share-with",
        dest="projects",
        metavar="PROJECT",
        action="append",
        help="project whose members may use it",
    )
    endpoint.add_argument("--everyone", action="store_true", default=None, help="all may use it")
    endpoint.add_argument("--private", action="store_true", help="you alone may use it")
    options.add_argument("--no-wait", action="store_true", help="do not wait until it answers")
    resources.add_options(options, fields)
    return options


def endpoint_body(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the endpoint should be, as far as it was given. Raises ServeError."""
    names = ("least", "most", "target", "idle", "users", "groups", "everyone")
    names += ("projects", "project")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.private:
        if {"users", "groups", "projects", "everyone"} & given.keys():
            raise ServeError(
                "'--private' and '--user', '--group', '--share-with' or '--everyone' exclude each "
                "other."
            )
        given |= {"users": [], "groups": [], "projects": [], "everyone": False}
    return given


def version_body(
    options: argparse.Namespace, command: Sequence[str], environment: str, broker: Broker
) -> dict[str, Any] | None:
    """Return the version to add; None if the options name no source. ``environment``: that of the
    session. Raises ServeError, RunError, PortalError."""
    names = ("environment", "health", "paths", "share")
    body = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    body |= options.resources
    if command:
        body["command"] = list(command)
    if options.example is not None:
        body["example"] = _object(options.example)
    if options.folder is not None:
        body["folder"] = _folder(options.folder)
    if options.model:
        if options.run:
            raise ServeError("'--model' and '--run' exclude each other.")
        return {**body, "source": {"model": options.model}}
    if not command:
        if body or options.run:
            raise ServeError("A version needs a command: write it last, after '--'.")
        return None
    body.setdefault("environment", environment)
    if options.run:
        run = named_run(runs_of(broker), options.run)
        point = _point(run, options.point, broker)
        body.setdefault("folder", str(run.get("folder") or "~"))
        return {**body, "source": {"run": run["id"], "point": point}}
    body.setdefault("folder", _folder("."))
    return {**body, "source": {"folder": body["folder"]}}


def _point(run: dict[str, Any], asked: str, broker: Broker) -> int:
    if asked.isdecimal():
        return int(asked)
    if asked != BEST:
        raise ServeError(f"'--point' must be a number or '{BEST}'; '{asked[:40]}' is not.")
    search = broker.ask("GET", f"/runs/{run['id']}").get("search")
    best = search.get("best") if isinstance(search, dict) else None
    if not isinstance(best, dict) or not isinstance(best.get("point"), int):
        raise RunError(
            f"The run '{run.get('name')}' has no best point: it has no search. Name one: --point 0."
        )
    return int(best["point"])


def _folder(text: str) -> str:
    path = Path(text).expanduser().resolve()
    if not path.is_dir():
        raise ServeError(f"There is no folder '{text[:200]}'.")
    return str(path)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ServeError("'--example' must be a JSON object such as '{\"path\": \"/v1/models\"}'.")
    return value
