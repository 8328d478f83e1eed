"""Stopwatch for those who follow docs/how-to/install.md in a booted root: runs its commands as they
stand there, and prints a row for each.

    python tests/roots/protocol.py ROOT RELEASE BASE_DN

``RELEASE``: the folder of the release's files (with a Debian package, that is installed, otherwise
the wheel); ``BASE_DN``: of the directory, in place of the page's example. Needs root.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

SOURCE = Path(__file__).resolve().parents[2]
PAGE = SOURCE / "docs" / "how-to" / "install.md"
_EXAMPLE = "dc=example,dc=org"


def main(root: Path, release: Path, base_dn: str) -> None:
    """Follow the page; end with status 1 at the first command that fails."""
    place = root / "root/release"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(release, place)
    packaged = bool(list(place.glob("*.deb")))
    begin = time.monotonic()
    print("| step | command | seconds |\n| --- | --- | --- |")
    for title, language, text in _blocks():
        if language == "yaml":
            _answer(place / "answers.yaml", yaml.safe_load(text.replace(_EXAMPLE, base_dn)))
            continue
        if title.startswith("1.") and packaged != (".deb" in text):
            continue
        for command in text.splitlines():
            start = time.monotonic()
            done = _run(root, command)
            print(f"| {title} | `{command[:60]}` | {time.monotonic() - start:.1f} |", flush=True)
            _tell(command, done)
            if done.returncode:
                sys.exit(1)
    print(f"| all | | {time.monotonic() - begin:.1f} |")


def _blocks() -> list[tuple[str, str, str]]:
    """Title, language and text of each block of the numbered steps."""
    found = []
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.M):
        title, _, body = part.partition("\n")
        if title[:1].isdigit():
            blocks = re.findall(r"^```(\w+)\n(.*?)^```$", body, re.M | re.S)
            found += [(title, language, text) for language, text in blocks]
    return found


def _answer(file: Path, answers: dict[str, object]) -> None:
    """Put the page's answers into the file of those that were found, as with an editor."""
    found = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(found | answers))


def _run(root: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *("sh", str(SOURCE / "tests/roots/root.sh"), "run", str(root)),
            *("sh", "-c", f"cd /root/release && {command}"),
        ],
        capture_output=True,
        text=True,
    )


def _tell(command: str, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        print("\n".join((done.stdout + done.stderr).splitlines()[-15:]), file=sys.stderr)
    elif command.endswith("--yes"):  # the doctor's summary and the test session with its times
        lines = done.stdout.splitlines()
        found = [line for line in lines if line.startswith(("FAILURE", "warning"))]
        print("\n".join([*found, *lines[-8:]]), file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3])
