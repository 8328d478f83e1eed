"""Console script ``portal-serve``: it serves models under addresses of the portal.

It runs in a session's terminal or notebook. The session's server asks the portal for it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable
from urllib.parse import urlsplit

from ...job_kernels.broker_client import VARIABLE as BROKER
from ...job_kernels.broker_client import Broker
from ...portal_error import PortalError
from ...runs import RunError
from ...runs.portal_run import resources
from ...runs.portal_run.text_table import aligned, printable
from . import ServeError
from .options import endpoint_body, parser, version_body
from .routes import NAME

_PAUSE = 2.0  # seconds between two looks
_GIVEN_UP = 3  # replicas in a row that failed (portal/work/endpoint/keeping/keeper.py)
_WORDS = {
    "waiting": "its job waits in the queue",
    "loading": "its job runs, the model is loading",
    "ready": "it answers",
}
Tell = Callable[[str], None]


def run(argv: Sequence[str], environ: Mapping[str, str], tell: Tell) -> str:
    """Execute a command line; return what to print. ``tell`` is called with the progress. Raises
    ServeError, RunError, PortalError, and SystemExit for help."""
    if not argv or argv[0] in ("-h", "--help"):
        parser().parse_args(["--help"])
    if not environ.get(BROKER):
        raise ServeError("portal-serve only works in a session of the portal with JupyterLab.")
    broker = Broker(environ[BROKER])
    command, *rest = argv
    if command in _COMMANDS:
        names, act = _COMMANDS[command]
        if len(rest) < len(names) or (command != "shares" and len(rest) > len(names)):
            raise ServeError(f"Write: {' '.join(('portal-serve', command, *names))}")
        return act(broker, *rest)
    return _serve(broker, argv, environ, tell)


def _serve(broker: Broker, argv: Sequence[str], environ: Mapping[str, str], tell: Tell) -> str:
    words, program = list(argv), []
    if "--" in words:
        at = words.index("--")
        words, program = words[:at], words[at + 1 :]
    options = parser(resources.offered_fields(broker)).parse_args(words)
    wanted = endpoint_body(options)
    version = version_body(options, program, environ.get("PORTAL_ENVIRONMENT", ""), broker)
    path = f"/models/{_checked(options.name)}"
    if version is None and not wanted:
        raise ServeError("Nothing to serve or to change is named. See 'portal-serve --help'.")
    before = {item["name"] for item in broker.ask("GET", "/models").get("items") or ()}
    if options.name not in before and version is None:
        raise ServeError(f"You have no endpoint '{options.name}'. Name what it is to serve.")
    if options.name not in before and environ.get("PORTAL_PROJECT"):
        wanted.setdefault("project", environ["PORTAL_PROJECT"])
    detail = broker.ask("PUT", path, wanted)
    if version is not None:
        try:
            detail = broker.ask("POST", f"{path}/versions", version)
        except PortalError:
            if options.name not in before:  # nothing is left of what could not be served
                broker.ask("DELETE", path)
            raise
        if not options.no_wait:
            detail = _waited(broker, path, _newest(detail), tell)
    return _about(detail, environ)


def _waited(broker: Broker, path: str, number: int, tell: Tell) -> dict[str, Any]:
    """Return the endpoint once this version answers. Raises ServeError if it was given up."""
    said = ""
    while True:
        detail = broker.ask("GET", path)
        mine = [each for each in detail["replicas"] if each["version"] == number]
        states = [each["state"] for each in mine]
        version = next((each for each in detail["versions"] if each["number"] == number), {})
        if "ready" in states:
            return detail
        problem = printable(version, "problem") or printable(detail, "problem")
        if int(version.get("failures") or 0) >= _GIVEN_UP:
            raise ServeError(f"Version {number} was given up. {problem}")
        state = next((state for state in ("loading", "waiting") if state in states), "")
        words = f"Version {number}: {_WORDS.get(state, 'a job is being submitted')}."
        words += f" {problem}" if problem else ""
        if words != said:
            tell(words)
            said = words
        time.sleep(_PAUSE)


def _about(detail: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return the address of an endpoint, and how to ask it."""
    address = _address(detail, environ)
    versions = detail.get("versions") or [{}]
    example = versions[0].get("example") or {}
    body = example.get("body")
    asked = shlex.quote(address.rstrip("/") + str(example.get("path") or "/"))
    lines = [
        f"Address: {address}",
        "With a token of yours (page 'Token') in the variable TOKEN:",
        f'  curl -H "Authorization: Bearer $TOKEN" {asked}',
    ]
    if body is not None:
        sent = shlex.quote(json.dumps(body))
        lines[-1] += f' \\\n    -H "Content-Type: application/json" -d {sent}'
    return "\n".join(lines)


def _address(item: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    portal = urlsplit(environ.get("PORTAL_SERVICE_URL", ""))
    return f"{portal.scheme}://{portal.netloc}{printable(item, 'address')}"


def _newest(detail: Mapping[str, Any]) -> int:
    return max(int(version["number"]) for version in detail["versions"])


def _list(broker: Broker) -> str:
    items = broker.ask("GET", "/models").get("items") or []
    if not items:
        return "You have no endpoints, and may use none. See 'portal-serve --help'."
    rows = [("NAME", "OWNER", "ANSWERS", "PROBLEM")]
    for item in items:
        answers = f"{item['ready']} replicas" if item.get("ready") else "no"
        name, owner, problem = (printable(item, key) for key in ("name", "owner", "problem"))
        rows.append((name, owner, answers, problem))
    return aligned(rows)


def _catalog(broker: Broker) -> str:
    items = broker.ask("GET", "/model-catalog").get("items") or []
    if not items:
        return "The site's catalog of models is empty."
    rows = [("MODEL", "OFFERED", "TITLE", "WHY NOT")]
    for item in items:
        name, title, problem = (printable(item, key) for key in ("name", "title", "problem"))
        rows.append((name, "yes" if item.get("offered") else "no", title, problem))
    return aligned(rows)


def _show(broker: Broker, name: str) -> str:
    detail = broker.ask("GET", f"/models/{_checked(name)}")
    rows = [("VERSION", "SHARE", "ENVIRONMENT", "SOURCE", "PROBLEM")]
    for version in detail["versions"]:
        source = version.get("source") or {}
        words = next((f"{key} {source[key]}" for key in ("model", "name", "folder") if
                      source.get(key)), "")  # fmt: skip
        rows.append(
            (
                printable(version, "number"),
                f"{printable(version, 'share')} %",
                printable(version, "environment"),
                printable({"source": words}, "source"),
                printable(version, "problem"),
            )
        )
    replicas = [("JOB", "VERSION", "STATE")]
    for each in detail["replicas"]:
        if each.get("ended_at") is None:
            job, version, state = (printable(each, key) for key in ("job_id", "version", "state"))
            replicas.append((job or "-", version, state))
    problem = printable(detail, "problem")
    asleep = "It sleeps; a request wakes it." if len(replicas) == 1 else aligned(replicas)
    return "\n".join([*([problem] if problem else []), aligned(rows), "", asleep])


def _shares(broker: Broker, name: str, *given: str) -> str:
    shares: dict[str, int] = {}
    for text in given:
        version, equals, share = text.partition("=")
        if not equals or not version.isdecimal() or not share.isdecimal():
            raise ServeError(f"'{text[:40]}' is no share. Write VERSION=PERCENT, such as 2=10.")
        shares[version] = int(share)
    if not shares:
        raise ServeError("Write: portal-serve shares NAME VERSION=PERCENT …")
    broker.ask("PUT", f"/models/{_checked(name)}/shares", {"shares": shares})
    return "The traffic is divided so once each of these versions answers."


def _delete(broker: Broker, name: str) -> str:
    return printable(broker.ask("DELETE", f"/models/{_checked(name)}"), "message")


def _checked(name: str) -> str:
    """Return a name that can stand in a path. Raises ServeError."""
    if not re.fullmatch(NAME, name):
        raise ServeError(
            f"'{name[:60]}' is no name of an endpoint: it has 2 to 40 lowercase letters, digits "
            "and dashes."
        )
    return name


_COMMANDS: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "list": ((), _list),
    "catalog": ((), _catalog),
    "show": (("NAME",), _show),
    "shares": (("NAME",), _shares),
    "delete": (("NAME",), _delete),
}


def main() -> None:
    """Run the console script. Exits with 1 and a sentence on standard error if it fails."""
    try:
        print(run(sys.argv[1:], os.environ, lambda text: print(text, file=sys.stderr)))
    except (ServeError, RunError, PortalError) as error:
        print(f"portal-serve: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # | head
        os._exit(0)


if __name__ == "__main__":
    main()
