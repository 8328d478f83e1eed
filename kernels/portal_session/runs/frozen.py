"""Frozen code of a run, as it is in the run's folder: run.json, the source and its local modules.

The folder may be where others can write, so nothing in it is believed: what is read is compared
with a digest that the portal keeps in its database and gives to the run's job, and only what was
read is executed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..kernels.environment import LIBRARY
from . import RunError
from .disk import read_regular, reason
from .local_modules import LARGEST as LARGEST_MODULES
from .local_modules import LocalModule
from .source import LARGEST as LARGEST_SOURCE

FILE = "run.json"
PLACED, PROGRAMS = "frozen.json", ("portal_frozen.py", "portal_mpi.py")  # beside the copies
VARIABLE = "PORTAL_FROZEN"  # path of their folder
MODULES = "modules"  # folder
LARGEST = 128 * 1024 * 1024  # bytes of run.json
_SOURCE = re.compile(r"source\.(ipynb|py)")
_MODULE = re.compile(rf"{MODULES}/[\w.]+\.py")
# What decides what is executed. The rest of run.json is told, and a repetition has its own.
_DIGESTED = (
    "file", "sha256", "modules", "kernel", "points", "typed", "search", "working_directory",
)  # fmt: skip


class Frozen(NamedTuple):
    """Frozen code: run.json, the content of the source, and the modules."""

    plan: dict[str, Any]
    content: bytes
    modules: list[LocalModule]

    @property
    def files(self) -> dict[str, bytes]:
        """Contents by the names of the files in the run's folder."""
        names = [str(module["file"]) for module in self.plan.get("modules") or ()]
        contents = [module.content for module in self.modules]
        return {str(self.plan["file"]): self.content, **dict(zip(names, contents))}

    def place(self, folder: Path, cwd: Path, *, repeats: bool) -> None:
        """Write the code into a folder in which only this user may write, for the point's program
        (library/portal_frozen.py). ``cwd``: the folder of the source; ``repeats``: the run
        repeats another one. Raises RunError."""
        modules = {
            module.name: (str(module.path), str(about["file"]))
            for module, about in zip(self.modules, self.plan.get("modules") or ())
        }
        linked = (cwd / Path(str(self.plan["source"])).name).resolve().parent
        roots = {str(linked), *(str(_root(module)) for module in self.modules)} - {str(cwd)}
        facts = {"modules": modules, "roots": [str(cwd), *sorted(roots)], "repeats": repeats}
        # A container need not see this package.
        program = {name: (LIBRARY / name).read_bytes() for name in PROGRAMS}
        program[PLACED] = json.dumps(facts).encode()
        try:
            for name, content in {**self.files, **program}.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(content)
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {reason(error)}") from None


def about_modules(modules: list[LocalModule]) -> list[dict[str, str]]:
    """Return what run.json says of modules."""
    return [
        {
            "name": module.name,
            "path": str(module.path),
            "file": f"{MODULES}/{module.name}{'.__init__' * (module.path.stem == '__init__')}.py",
            "sha256": hashlib.sha256(module.content).hexdigest(),
        }
        for module in modules
    ]


def code_digest(plan: Mapping[str, Any]) -> str:
    """Return the digest of what run.json has executed: "sha256:" and hexadecimal digits."""
    text = json.dumps({name: plan.get(name) for name in _DIGESTED}, sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _root(module: LocalModule) -> Path:
    """Return the folder from which a module is imported."""
    depth = module.name.count(".") + (module.path.name == "__init__.py")
    return module.path.parents[depth]


def read_plan(folder: Path, id: str, *, own: bool = False) -> dict[str, Any]:
    """Return run.json of the run with this id. ``own``: it must be this user's. Raises RunError."""
    path = folder / FILE
    try:
        text = read_regular(path, LARGEST, own=own)
    except FileNotFoundError:
        raise RunError(
            f"{path} does not exist on this node: it was deleted, or its folder is only on the "
            "session's node."
        ) from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError):
        raise RunError(f"{path} is damaged.") from None
    if not isinstance(plan, dict) or plan.get("id") != id:
        raise RunError(f"{path} is another run's.")
    return plan


def read_frozen(folder: Path, id: str, digest: str) -> Frozen:
    """Return the frozen code in the folder of the run with this id, if it has this ``digest``. ""
    is that of a run which is older than digests: its files must be this user's own. Raises RunError
    if something was changed."""
    own = not digest
    plan = read_plan(folder, id, own=own)
    if digest and code_digest(plan) != digest:
        raise RunError(f"{folder / FILE} was changed after the run was started. Start a new run.")
    try:
        name, sha256 = str(plan["file"]), str(plan["sha256"])
        listed = [
            (str(each["name"]), Path(str(each["path"])), str(each["file"]), str(each["sha256"]))
            for each in plan.get("modules") or ()
        ]
    except (KeyError, TypeError):
        raise RunError(f"{folder / FILE} is damaged.") from None
    if not _SOURCE.fullmatch(name) or not all(_MODULE.fullmatch(each[2]) for each in listed):
        raise RunError(f"{folder / FILE} is damaged.")
    content = _read(folder / name, sha256, LARGEST_SOURCE, own=own)
    modules = [
        LocalModule(module, path, _read(folder / file, hexdigest, LARGEST_MODULES, own=own))
        for module, path, file, hexdigest in listed
    ]
    return Frozen(plan, content, modules)


def _read(path: Path, sha256: str, most: int, *, own: bool) -> bytes:
    """Return the content of a frozen file. Raises RunError."""
    try:
        content = read_regular(path, most, own=own)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}.") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RunError(f"{path} was changed after it was frozen. Start a new run.")
    return content
