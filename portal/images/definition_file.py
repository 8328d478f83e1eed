"""A definition file that an admin gives: what of it may be built, under an account without rights.

A definition file can run commands on the node (%setup), copy any file of the node into the image
(%files) and ask for bootstraps that need root. None of that is done here.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from .outcome import WorkFailed

# Agents that fetch or copy an image (apptainer-build(1)); the others install packages as root.
_AGENTS = frozenset({"docker", "localimage", "oci", "oci-archive", "docker-archive", "oras"})
_LARGEST = 262_144  # bytes
_SECTION = re.compile(r"^%(\w+)\s*(.*)$")
_ROOT = re.compile(r"(^|[;&|(]\s*)(sudo|su|doas|pkexec)\s", re.MULTILINE)


def read_definition(path: Path) -> str:
    """The text of a definition file that may be built. Raises WorkFailed, with the line that is
    in the way."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise WorkFailed(f"'{path}' cannot be read: {error.strerror}.") from None
    if len(raw) > _LARGEST:
        raise WorkFailed(f"'{path}' is larger than {_LARGEST // 1024} KiB.")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise WorkFailed(f"'{path}' is not UTF-8 text.") from None
    agents = 0
    for number, section, line in _lines(text):
        where = f"'{path.name}', line {number}: "
        name, _, value = (part.strip() for part in line.partition(":"))
        if section == "" and name.lower() == "bootstrap":
            agents += 1
            if value.lower() not in _AGENTS:
                raise WorkFailed(
                    f"{where}the bootstrap '{value[:40]}' asks for root. Start from an image "
                    f"instead: {', '.join(sorted(_AGENTS))}."
                )
        elif section == "setup":
            raise WorkFailed(
                f"{where}%setup runs on the node, outside of the image, and is not done here. Put "
                "the commands into %post, which runs in it."
            )
        elif section in ("post", "test") and _ROOT.search(line):
            raise WorkFailed(
                f"{where}the file asks for root ('{line.strip()[:60]}'). %post already runs as the "
                "root of the image; more than that is not to be had here."
            )
    if not agents:
        raise WorkFailed(f"'{path}' is no definition file: it has no line 'Bootstrap: …'.")
    copied_files(path, text)
    return text


def copied_files(path: Path, text: str | None = None) -> list[Path]:
    """The files below the definition's folder that it copies into the image, links followed.

    Raises WorkFailed when one is outside of that folder.
    """
    folder = Path(os.path.realpath(path.parent))
    found: list[Path] = []
    for number, section, line in _lines(path.read_text(errors="replace") if text is None else text):
        if section != "files":
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = [line.strip()]
        if not words:
            continue
        pattern = words[0]
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise WorkFailed(_outside(path, number, pattern))
        for one in sorted(path.parent.glob(pattern)):
            for member in [one, *(sorted(one.rglob("*")) if one.is_dir() else [])]:
                if not Path(os.path.realpath(member)).is_relative_to(folder):
                    raise WorkFailed(_outside(path, number, str(member.relative_to(path.parent))))
                if member.is_file():
                    found.append(member)
    return found


def _outside(path: Path, number: int, name: str) -> str:
    return (
        f"'{path.name}', line {number}: %files would copy '{name[:200]}', which is not in the "
        "folder of the definition file. Put it there and name it without '/' at the beginning and "
        "without '..'."
    )


def _lines(text: str) -> list[tuple[int, str, str]]:
    """Number, section and text of each line that says something. Section "": the header; "files"
    that come from another stage of the build are "files from"."""
    found = []
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        match = _SECTION.match(line)
        if match:
            section = match.group(1).lower()
            if section == "files" and match.group(2).startswith("from"):
                section = "files from"
            if section == "setup":
                found.append((number, section, line))
        elif re.match(r"(?i)bootstrap\s*:", line):
            section = ""  # the next stage's header
            found.append((number, section, line))
        elif line.strip() and not line.lstrip().startswith("#"):
            found.append((number, section, line))
    return found
