"""Variables of the Hub that its configuration reads (PORTAL_…), for a command that lacks them:
those of the running Hub, else those that its unit names (systemd.exec(5), "Environment")."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from .stopped import running_hub

UNIT = "data-scientist-portal.service"
# systemd.unit(5): a folder that stands earlier wins.
FOLDERS = (
    Path("/etc/systemd/system"),
    Path("/run/systemd/system"),
    Path("/usr/local/lib/systemd/system"),
    Path("/usr/lib/systemd/system"),
    Path("/lib/systemd/system"),
)
_OURS = "PORTAL_"


def adopt_variables(config_file: Path, directory: Path | None = None) -> list[str]:
    """Set the variables of the Hub (in ``directory``, if that is known) that this process lacks;
    return a sentence for each place in which they may stand and which this account may not read.
    Raises Conflict."""
    problems: list[str] = []
    for name, value in _of_hub(config_file, directory, problems):
        os.environ.setdefault(name, value)
    return [
        f"{problem}: variables such as PORTAL_CONFIG_D and PORTAL_GATEWAY_STATE may stand there. "
        "Run this command as root, or with them in its environment."
        for problem in problems
    ]


def _of_hub(
    config_file: Path, directory: Path | None, problems: list[str]
) -> Iterator[tuple[str, str]]:
    if process := running_hub(config_file, directory):
        try:
            text = (process / "environ").read_text(errors="replace")
        except OSError as error:
            problems.append(f"The variables of the Hub (process {process.name}): {error.strerror}")
        else:
            yield from _pairs(text.split("\0"))
            return
    for lines in _settings(config_file):
        yield from _of_lines(lines, problems)


def _settings(config_file: Path) -> Iterator[list[str]]:
    """Yield the lines of the Hub's unit and its additions, the last first: the last counts. None if
    the unit starts a Hub of another configuration."""
    unit = next((path for folder in FOLDERS if (path := folder / UNIT).is_file()), None)
    if unit is None:
        return
    additions: dict[str, Path] = {}
    for folder in reversed(FOLDERS):
        additions |= {path.name: path for path in folder.glob(f"{UNIT}.d/*.conf")}
    texts = []
    for path in (unit, *(additions[name] for name in sorted(additions))):
        with contextlib.suppress(OSError):
            texts.append(path.read_text(errors="replace").replace("\\\n", " "))
    if str(config_file) in "".join(texts):
        yield from ([*reversed(text.splitlines())] for text in reversed(texts))


def _of_lines(lines: list[str], problems: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables of a unit's lines. Those of a file come first: they win over others."""
    for line in lines:
        if found := re.match(r"EnvironmentFile\s*=\s*(-?)(.+)", line):
            try:
                text = Path(found[2].strip()).read_text(errors="replace")
            except OSError as error:
                if not found[1]:
                    problems.append(f"{found[2].strip()}: {error.strerror}")
                continue
            yield from _pairs(word for each in text.splitlines() for word in _words(each))
    for line in lines:
        if found := re.match(r"Environment\s*=(.*)", line):
            yield from _pairs(_words(found[1]))


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quote without its end
        return []


def _pairs(words: Iterator[str] | list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, found, value = word.partition("=")
        if found and name.startswith(_OURS):
            yield name, value
