"""Command ``portal-run archive``: one file of a run that has ended, made by the program itself, as
the user. The portal gives the record; it cannot read the files."""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from ...job_kernels.broker_client import Broker
from ...publication import publish
from .. import RunError
from ..disk import reason
from ..execution.task import manifest_of, point_folders
from ..frozen import read_plan
from ..own_runs import named_run, runs_of
from .bag import Bag
from .citation import citation

COMMANDS = ("archive",)
_PAGE = 100  # points of a page, which the broker's answer holds
_LOOKED_AT = 10  # points, for the packages of the environment
# Of the portal's record: what only its user and admins see.
_PRIVATE = ("account", "qos", "reservation")


def run(argv: Sequence[str], broker: Broker) -> str:
    """Execute the command; return what to print. Raises RunError, BrokerError."""
    chosen = _parser().parse_args(argv[1:])
    item = named_run(runs_of(broker), chosen.name)
    if item.get("ended_at") is None:
        raise RunError(f"The run '{item['name']}' has not ended. Wait for its end, or stop it.")
    metadata = citation(
        item,
        title=chosen.title,
        creators=chosen.creator or [_own_name()],
        license=chosen.license,
        description=chosen.description,
    )
    folder = Path(str(item["folder"]))
    plan = read_plan(folder, str(item["id"]))
    target = Path(chosen.output or f"{item['name']}.zip").expanduser().absolute()
    if target.resolve().is_relative_to(folder.resolve()):
        raise RunError(f"{target} would be in the folder that is archived. Choose --output.")
    with _new_file(target) as file, Bag(file, str(item["name"])) as bag:
        bag.add_folder(folder)
        bag.describe("metadata/datacite.json", metadata)
        bag.describe("metadata/run.json", _record(item, plan, folder, broker))
        bag.close(_about(item, metadata))
    return _words(target, bag, metadata)


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="portal-run archive",
        description="Write a run's files, record and citation metadata into one zip file, with "
        "checksums (BagIt, RFC 8493).",
        allow_abbrev=False,
    )
    options.add_argument("name", help="name of the run, or its id")
    options.add_argument("--output", metavar="FILE", help="new file; by default NAME.zip")
    options.add_argument("--title", default="", help="title in citations; by default the run's")
    options.add_argument(
        "--creator",
        action="append",
        metavar="NAME",
        help="who made it, as 'Family name, Given name'; several are possible; by default you",
    )
    options.add_argument("--license", default="", metavar="ID", help="SPDX's, such as CC-BY-4.0")
    options.add_argument("--description", default="", help="one line about it")
    return options


def _own_name() -> str:
    """Return the user's full name as the system has it, or the account's name."""
    try:
        entry = pwd.getpwuid(os.geteuid())
    except KeyError:
        return os.environ.get("USER", "")
    return entry.pw_gecos.split(",")[0].strip() or entry.pw_name


@contextlib.contextmanager
def _new_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a file that gets its name once it is whole. Raises RunError; nothing is left then."""
    part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    if os.path.lexists(target):
        raise RunError(f"{target} exists. Choose another file with --output.")
    try:
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RunError(f"{target.parent}: {error.strerror}. Choose --output.") from None
    try:
        try:
            with part.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                publish(file.fileno(), part.name, target.name, folder)
        except FileExistsError:
            raise RunError(f"{target} exists by now. Choose another file.") from None
        except OSError as error:
            where = error.filename or target
            raise RunError(f"The run was not archived: {where}: {reason(error)}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
        os.close(folder)


def _record(
    item: Mapping[str, Any], plan: Mapping[str, Any], folder: Path, broker: Broker
) -> dict[str, Any]:
    """Return what the portal and the run's files say of it: its environment, and its points with
    their parameters and metrics."""
    detail = {**item, **broker.ask("GET", f"/runs/{item['id']}")}
    resources = detail.get("resources")
    kept = resources if isinstance(resources, dict) else {}
    points: list[Any] = []
    while len(points) < int(detail.get("points") or 0):
        page = broker.ask("GET", f"/runs/{item['id']}/points?offset={len(points)}&limit={_PAGE}")
        items = page.get("items")
        if not isinstance(items, list) or not items:
            break
        points += items
    return {
        "run": {
            **detail,
            "resources": {name: kept[name] for name in kept if name not in _PRIVATE},
        },
        "environment": {
            "name": detail.get("environment") or plan.get("environment"),
            "version": detail.get("version"),
            "image_digest": plan.get("image_digest"),
            "python": _python(folder, len(points)),
        },
        "git": plan.get("git"),
        "points": points,
    }


def _python(folder: Path, points: int) -> Any:
    """Return Python's version and packages, as the first point that knows them says; else None."""
    for number in range(min(points, _LOOKED_AT)):
        for place in point_folders(folder, number):
            if known := manifest_of(place).get("python"):
                return known
    return None


def _about(item: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, str]:
    return {
        "Bagging-Date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "Contact-Name": "; ".join(creator["name"] for creator in metadata["creators"]),
        "External-Description": metadata["titles"][0]["title"],
        "External-Identifier": str(item["id"]),
    }


def _words(target: Path, bag: Bag, metadata: Mapping[str, Any]) -> str:
    size, files = bag.size
    lines = [f"{target}: {files:,} files, {size / 1e6:,.1f} MB before compression."]
    if bag.left_out:
        first = ", ".join(ascii(name) for name in bag.left_out[:3])
        lines.append(f"Not in it: {len(bag.left_out):,} links or other entries ({first}).")
    if "rightsList" not in metadata:
        lines.append("It names no license: --license CC-BY-4.0, for example.")
    return "\n".join(lines)
