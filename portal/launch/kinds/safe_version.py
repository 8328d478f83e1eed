"""Guard of a session's program: it runs the program if the installed version is safe.

Its text is ``python -c TEXT TITLE PACKAGE LEAST REASON [ARGV…]`` in the session, whose image may
have an older portal_session: in the program's own Python (3.9 or newer), folder and variables, so
that it sees the package that would run. Without ARGV it only checks. It fails with a sentence on
standard error.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata

from packaging.version import InvalidVersion, Version

UNSAFE = 78  # exit code; EX_CONFIG of sysexits(3)


def refusal(title: str, package: str, least: str, reason: str) -> str:
    """Return why the program must not run: the ``package`` is older than ``least``, in which
    ``reason`` was fixed; "" if it may."""
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        return f"{title} is not installed: this environment has no package '{package}'."
    try:
        safe = Version(installed) >= Version(least)
    except (InvalidVersion, TypeError):  # damaged metadata has no version
        safe = False
    if safe:
        return ""
    return (
        f"{title} {installed} is not safe on a shared node ({reason}). The environment needs "
        f"{package} {least} or newer."
    )


def main(argv: list[str]) -> int:
    """Replace this process by the program; return the exit code if that does not happen."""
    title, package, least, reason, *program = argv
    sentence = refusal(title, package, least, reason)
    if sentence:
        print(sentence, file=sys.stderr)
        return UNSAFE
    if program:
        os.execv(program[0], program)  # noqa: S606 - no shell is needed
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
