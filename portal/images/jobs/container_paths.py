"""Files of an unpacked image, seen from outside: its links must not lead to the node's own."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..outcome import WorkFailed

# e_machine (elf(5)) to what uname -m says.
_MACHINES = {3: "i686", 20: "ppc", 21: "ppc64le", 22: "s390x", 40: "armv7l", 62: "x86_64"}
_MACHINES |= {183: "aarch64", 243: "riscv64"}
OCI_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
_LINKS = 40  # as many as the kernel follows


def inside(root: Path, path: str) -> Path | None:
    """Return the place on the node of ``path`` in the image, links read as the image reads them;
    None if it is not there."""
    parts = [part for part in reversed(path.split("/")) if part]
    at: list[str] = []
    links = 0
    while parts:
        part = parts.pop()
        if part == ".":
            continue
        if part == "..":
            del at[-1:]
            continue
        place = root.joinpath(*at, part)
        if place.is_symlink():
            links += 1
            if links > _LINKS:
                return None
            target = str(place.readlink())
            if target.startswith("/"):
                at = []
            parts += [step for step in reversed(target.split("/")) if step]
        elif place.exists():
            at.append(part)
        else:
            return None
    return root.joinpath(*at)


def architecture(root: Path) -> str:
    """Return the image's architecture as ``uname -m`` has it; "" if its shell does not tell."""
    shell = inside(root, "/bin/sh")
    if not shell or not shell.is_file():
        return ""
    with shell.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF":
        return ""
    order = "little" if head[5] == 1 else "big"
    return _MACHINES.get(int.from_bytes(head[18:20], order), "")  # type: ignore[arg-type]


def check_architecture(name: str, machine: str) -> None:
    """Raise WorkFailed if an image for ``name`` cannot run on a node of ``machine``; both as OCI or
    ``uname -m`` writes them. "" is not checked."""
    theirs, ours = OCI_NAMES.get(name, name), OCI_NAMES.get(machine, machine)
    if theirs and theirs != ours:
        raise WorkFailed(
            f"The image is built for {theirs}, but the nodes are {ours}. Use a tag or digest "
            f"for {ours}."
        )


def make_room(root: Path, prefix: str) -> None:
    """Remove what an earlier build put at ``prefix``, and make the folder above it. Raises
    WorkFailed if a link is in the way."""
    at = root
    for part in prefix.strip("/").split("/"):
        at = at / part
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            image_path = f"/{at.relative_to(root)}"
            raise WorkFailed(
                f"'{image_path}' is not a folder in this image, so the portal's files cannot be "
                f"placed in '{prefix}'."
            )
    if at.exists():
        shutil.rmtree(at)
    at.parent.mkdir(parents=True, exist_ok=True)
