"""Checks of definition files from admins: what may be built under an account without rights.

A definition file can run commands on the node (%pre, %setup, and what a shell makes of a name in
%files), copy any file of the node into the image (%files, %appfiles) and ask for bootstraps that
need root. None of that is done here, so only what is known here is accepted: sections and names
are read as Apptainer 1.4 reads them (its pkg/build/types/parser/deffile.go), which takes "%%setup"
for %setup and fills in the values of %arguments anywhere.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from portal.models.catalog.image import parse_source

from ..outcome import WorkFailed
from .enclosure import TEMPORARY

# Agents that fetch or copy an image (apptainer-build(1)); the others install packages as root.
_AGENTS = frozenset({"docker", "localimage", "oci", "oci-archive", "docker-archive", "oras"})
_LARGEST = 262_144  # bytes
# Sections that run in the image, or do not run.
_SECTIONS = frozenset(
    {"environment", "files", "help", "labels", "post", "runscript", "startscript", "test"}
)
_ON_THE_NODE = frozenset({"pre", "setup"})
_SECTION = re.compile(r"^%([A-Za-z]+)(?: +(.*))?$")
# Characters at which Python and Apptainer end lines differently.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
# Apptainer has a shell expand the name, and gives the result to cp.
_NAME = re.compile(r"[A-Za-z0-9._+@*?\[\]/][A-Za-z0-9._+@*?\[\]/-]*")
_ROOT = re.compile(r"(^|[;&|(]\s*)(sudo|su|doas|pkexec)\s", re.MULTILINE)


def read_definition(path: Path) -> str:
    """Return the text of a definition file that may be built. Raises WorkFailed, with the line
    that is in the way."""
    text = _text(path)
    agents = 0
    for number, section, line in _lines(text):
        where = f"'{path.name}', line {number}: "
        name, _, value = (part.strip() for part in line.partition(":"))
        if section == "" and name.lower() == "bootstrap":
            agents += 1
            if value.lower() not in _AGENTS:
                raise WorkFailed(
                    f"{where}the bootstrap '{value[:40]}' needs root. Start from an image "
                    f"instead: {', '.join(sorted(_AGENTS))}."
                )
        elif section == "" and name.lower() == "from" and _unseen(value):
            raise WorkFailed(
                f"{where}'{value[:200]}' is in a temporary folder of the node, which builds do "
                f"not see ({', '.join(TEMPORARY)}). Move the image to another folder."
            )
        elif section in _ON_THE_NODE:
            raise WorkFailed(
                f"{where}%{section} runs on the node, outside the image, and is not supported. "
                "Move the commands to %post, which runs inside the image."
            )
        elif section not in ("", "files from", *_SECTIONS):
            raise WorkFailed(
                f"{where}'{line.strip()[:60]}' is not a supported section. Supported: "
                f"{', '.join(f'%{item}' for item in sorted(_SECTIONS))}. Other lines must not "
                "begin with '%'."
            )
        elif section in ("post", "test") and _ROOT.search(line):
            raise WorkFailed(
                f"{where}the file needs root ('{line.strip()[:60]}'). %post already runs as "
                "root inside the image; other root rights are not available."
            )
    if not agents:
        raise WorkFailed(f"'{path}' is not a definition file: it has no line 'Bootstrap: …'.")
    copied_files(path, text)
    return text


def base_hosts(text: str) -> frozenset[str]:
    """Return the registries from which the file's stages fetch their images."""
    stages: list[dict[str, str]] = []
    for _, section, line in _lines(text):
        if section:
            continue
        name, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        if name.lower() == "bootstrap":
            stages.append({})
        if stages:
            stages[-1][name.lower()] = value
    hosts = set()
    for stage in stages:
        if stage["bootstrap"].lower() not in ("docker", "oras"):
            continue
        # As Apptainer puts the name together (its internal/pkg/build/sources).
        parts = [stage.get(name, "").strip("/") for name in ("registry", "namespace", "from")]
        with suppress(ValueError):  # no reference at all: nothing is fetched, and no login needed
            hosts.add(parse_source(f"docker://{'/'.join(filter(None, parts))}").host)
    return frozenset(hosts)


def _unseen(image: str) -> bool:
    """Return True for the path of an image (``/folder/image:tag``) in a temporary folder."""
    path = image.partition(":")[0].strip()
    real = os.path.realpath(path)
    return path.startswith("/") and any(f"{real}/".startswith(f"{top}/") for top in TEMPORARY)


def _text(path: Path) -> str:
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
    if _CONTROL.search(text):
        raise WorkFailed(f"'{path}' contains control characters. Remove them.")
    return text


def copied_files(path: Path, text: str | None = None) -> list[Path]:
    """Return the files below the definition's folder that it copies to the image, links followed.

    Raises WorkFailed if one is outside of that folder.
    """
    folder = Path(os.path.realpath(path.parent))
    files: list[Path] = []
    for number, section, line in _lines(_text(path) if text is None else text):
        if section not in ("files", "files from"):
            continue
        # The first word; quotes around it are not a part of it.
        pattern = re.sub(r'^"(.*)"$', r"\1", re.split(r"[ \t]+", line.strip(), maxsplit=1)[0])
        if not _NAME.fullmatch(pattern):
            raise WorkFailed(
                f"'{path.name}', line {number}: '{pattern[:200]}' in %files is not a supported "
                "name. Use only letters, digits and . _ + @ - / * ? [ ], and no '-' at the "
                "beginning."
            )
        if section == "files from":
            continue
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise WorkFailed(_outside(path, number, pattern))
        for entry in sorted(path.parent.glob(pattern)):
            name = str(entry.relative_to(path.parent))
            if name.startswith("-"):
                raise WorkFailed(
                    f"'{path.name}', line {number}: '{name[:200]}' would be read as an option "
                    "of cp. Rename the file."
                )
            for member in [entry, *(sorted(entry.rglob("*")) if entry.is_dir() else [])]:
                if not Path(os.path.realpath(member)).is_relative_to(folder):
                    raise WorkFailed(_outside(path, number, str(member.relative_to(path.parent))))
                if member.is_file():
                    files.append(member)
    return files


def _outside(path: Path, number: int, name: str) -> str:
    return (
        f"'{path.name}', line {number}: %files would copy '{name[:200]}', which is not in the "
        "folder of the definition file. Put it there and name it without '/' at the beginning and "
        "without '..'."
    )


def _lines(text: str) -> list[tuple[int, str, str]]:
    """Return number, section and text of each significant line. Section "": the header; "files
    from": files that come from another stage of the build."""
    lines = []
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"(?i)bootstrap:", line):
            section = ""  # the next stage's header
            lines.append((number, section, line))
        elif line.lstrip().startswith("%"):
            match = _SECTION.match(line)
            section = match.group(1).lower() if match else "?"
            if match and section == "files" and (match.group(2) or "").startswith("from "):
                section = "files from"
            if section not in (*_SECTIONS, "files from"):
                lines.append((number, section, line))
        elif line.strip() and not line.lstrip().startswith("#"):
            lines.append((number, section, line))
    return lines
