"""Guard of a session's program: it runs the program if the installed version is safe.

Its text is ``python -c TEXT TITLE SOFTWARE LEAST REASON [ARGV…]`` in the session, whose image may
have an older portal_session: in the program's own Python (3.9 or newer), folder and variables, so
that it sees the software that would run, a package or bin/EXECUTABLE. LEAST "": any version is
safe. Without ARGV it only checks. It fails with a sentence on standard error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata

from packaging.version import InvalidVersion, Version

UNSAFE = 78  # exit code; EX_CONFIG of sysexits(3)


def refusal(title: str, software: str, least: str, reason: str) -> str:
    """Return why the program must not run: its ``software`` is older than ``least``, in which
    ``reason`` was fixed; "" if it may."""
    executable, name = software.startswith("bin/"), software.rpartition("/")[2]
    kind = "executable" if executable else "package"
    try:
        installed = _printed_version(name, least) if executable else metadata.version(name)
    except (metadata.PackageNotFoundError, OSError):
        return f"{title} is not installed: this environment has no {kind} '{name}'."
    try:
        safe = not least or Version(installed) >= Version(least)
    except (InvalidVersion, TypeError):  # damaged metadata has no version
        safe = False
    if safe:
        return ""
    return (
        f"{title} {installed} is not safe on a shared node ({reason}). The environment needs "
        f"{name} {least} or newer."
    )


def _printed_version(name: str, least: str) -> str:
    """Return the first version that ``name --version`` prints; "" for none, or if it does not
    matter. Raises OSError if there is no such program."""
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(name)
    if not least:
        return ""
    argv = [path, "--version"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    except subprocess.TimeoutExpired:
        return ""
    words = re.search(r"^(?:\D* )?v?(\d+(?:\.\w+)+)", done.stdout.decode(errors="replace"), re.M)
    return words[1] if words else ""


def main(argv: list[str]) -> int:
    """Replace this process by the program; return the exit code if that does not happen."""
    title, software, least, reason, *program = argv
    sentence = refusal(title, software, least, reason)
    if sentence:
        print(sentence, file=sys.stderr)
        return UNSAFE
    if program:
        os.execvp(program[0], program)  # noqa: S606 - no shell is needed
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
