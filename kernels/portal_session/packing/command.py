"""Console script ``portal-pack``: it packs a folder of small files into one image, and lists what
is packed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable
from urllib.parse import quote

from ..job_kernels.broker_client import VARIABLE, Broker
from ..portal_error import PortalError

PATH = "/packing"  # as in `packing`, which is not imported here: it brings the server
PAUSE = 0.5  # seconds between two looks


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    options = argparse.ArgumentParser(
        prog="portal-pack",
        description="Packs a folder into one image, which sessions bind read-only. The folder "
        "stays as it is; later changes are not in the image. Without a folder: what is packed.",
        allow_abbrev=False,
    )
    options.add_argument("folder", nargs="?", type=Path, help="folder to pack")
    options.add_argument("--image", type=Path, help="file of the image; by default FOLDER.sqsh")
    options.add_argument("--name", help="name in sessions; by default the folder's")
    options.add_argument(
        "--forget", metavar="NAME", help="bind NAME in no further session; its image stays"
    )
    return options


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    broker: Callable[[str], Any] = Broker,
) -> str:
    """Execute a command line; return what to print. ``tell`` shows the progress. Raises
    PortalError, and SystemExit for help and a wrong option."""
    options = parser().parse_args(argv)
    if not environ.get(VARIABLE):
        raise PortalError("portal-pack only works in a session of the portal with JupyterLab.")
    server = broker(environ[VARIABLE])
    if options.forget:
        image = server.ask("DELETE", f"{PATH}/{quote(options.forget, safe='')}")["image"]
        return f"No further session binds '{options.forget}'. Its image is still there: {image}"
    if options.folder is None:
        return _listing(server.ask("GET", PATH)["items"])
    body = {"folder": _absolute(options.folder)}
    body |= {"image": _absolute(options.image)} if options.image else {}
    body |= {"name": options.name} if options.name else {}
    server.ask("POST", PATH, body)
    return _follow(server, tell)


def _follow(server: Any, tell: Callable[[str], None]) -> str:
    """Wait for the end of the packing; return its sentence. Raises PortalError if it failed."""
    try:
        while True:
            progress = server.ask("GET", PATH)["progress"]
            if progress["state"] == "packed":
                return str(progress["words"])
            if progress["state"] not in ("counting", "packing"):
                raise PortalError(str(progress["words"]))
            files = f"{progress['files']:,} files"
            packing = progress["state"] == "packing"
            tell(f"Packing {files}: {progress['percent']} %" if packing else f"Counting: {files}")
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        server.ask("DELETE", PATH)
        raise


def _absolute(path: Path) -> str:
    return os.path.abspath(path.expanduser())  # noqa: PTH100 - links are resolved by the server


def _listing(items: list[dict[str, str]]) -> str:
    if not items:
        return "Nothing is packed. portal-pack FOLDER packs a folder of small files."
    lines = []
    for item in items:
        lines += [f"{item['name']}  {item['path'] or 'not bound: ' + item['reason']}"]
        lines += [f"  image: {item['image']}"]
    return "\n".join(lines)


def main() -> None:
    """Run the console script. Exits with 1 and a sentence on standard error if it fails."""
    shown = sys.stderr.isatty()

    def show(text: str) -> None:
        if shown:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    try:
        words = run(sys.argv[1:], os.environ, show)
        show("")
        print(words)
    except PortalError as error:
        show("")
        print(f"portal-pack: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
