"""Exchange between the catalog and a folder of files, e.g. in git, without losing changes.

The folder's ``catalog.json`` records what both sides were when they last agreed. A change since
then on one side goes to the other; changes on both are a conflict.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from portal.errors import ConfigurationError, NotFound

from ..definitions.problems import CatalogError
from ..definitions.reading import hash_of, read_definition
from ..definitions.writing import remove_file, write_file
from ..files import EnvironmentCatalog

MANIFEST = "catalog.json"


class Step(StrEnum):
    """Step of an import for one environment."""

    SAME = "is the same"
    ADD = "is new"
    CHANGE = "is changed"
    REMOVE = "is removed"
    BEHIND = "was changed in the catalog; kept there"
    LEFT = "is only in the catalog; kept there"
    CONFLICT = "was changed in both"


WRITES = frozenset({Step.ADD, Step.CHANGE, Step.REMOVE})


class Side(NamedTuple):
    """Environment on one side: the path of its file (that it has or would get) and the text;
    None: it is not there."""

    path: Path
    text: str | None

    @property
    def hash(self) -> str:
        """Hash of the file's bytes; "" for no file."""
        return "" if self.text is None else hash_of(self.text.encode())


class Plan(NamedTuple):
    """Planned step for one environment."""

    name: str
    step: Step
    catalog: Side
    folder: Side

    def difference(self) -> str:
        """Return the difference of the folder's file from the catalog's, as diff -u has it; "" if
        there is none."""
        return "".join(
            _whole_lines(
                difflib.unified_diff(
                    (self.catalog.text or "").splitlines(keepends=True),
                    (self.folder.text or "").splitlines(keepends=True),
                    f"catalog/{self.catalog.path.name}" if self.catalog.text else "/dev/null",
                    str(self.folder.path) if self.folder.text is not None else "/dev/null",
                )
            )
        )


class Exchange:
    """Exchange of the catalog with a folder. ``errors``: the folder's; nothing is imported then.

    Raises NotFound if the folder is not there, ConfigurationError if the catalog or the folder's
    ``catalog.json`` cannot be read. Blocks.
    """

    def __init__(self, catalog: EnvironmentCatalog, directory: Path) -> None:
        self.directory = directory
        if not directory.is_dir():
            raise NotFound(f"Folder {directory} does not exist.")
        catalog.load_now()
        if not catalog.loaded:
            raise ConfigurationError("; ".join(str(error) for error in catalog.errors))
        self.catalog = catalog
        folder = folder_of(catalog, directory)
        self.errors = folder.errors
        self._manifest = self._read_manifest()
        self._inside = _texts(catalog)
        self._outside = _texts(folder)
        if self._manifest and not self._inside:
            raise ConfigurationError(
                f"{catalog.directory} has no environments, but had some at the last export. "
                "Check that its file system is mounted. If it is empty on purpose, remove "
                f"{directory / MANIFEST}."
            )

    def plans(self, ours: Collection[str] = (), theirs: Collection[str] = ()) -> list[Plan]:
        """Return what an import would do, by name. ``ours``: names for which the folder wins a
        conflict; ``theirs``: names for which the catalog does."""
        names = sorted({*self._inside, *self._outside})
        return [self._plan(name, name in ours, name in theirs) for name in names]

    def carry_out(self, plans: list[Plan]) -> None:
        """Carry out the plans in the catalog, and record what both sides are now. Raises
        CatalogNotWritable; Conflict if a file was changed meanwhile; Unavailable."""
        agreed = dict(self._manifest)
        try:
            for plan in plans:
                inside, outside = plan.catalog, plan.folder
                if plan.step is Step.REMOVE:
                    remove_file(inside.path)
                    agreed.pop(plan.name, None)
                elif plan.step in WRITES and outside.text is not None:
                    write_file(inside.path, outside.text, inside.hash)
                if plan.step in (Step.ADD, Step.CHANGE, Step.SAME):
                    agreed[plan.name] = outside.hash
        finally:
            self._note(agreed)

    def export(self, force: Collection[str] = ()) -> list[Plan]:
        """Write the catalog's files into the folder. Files changed there since the last time stay;
        those changed on both sides are returned. ``force``: names for which the catalog wins."""
        agreed, conflicts = dict(self._manifest), []
        for name in sorted({*self._inside, *self._outside}):
            inside, outside = self._sides(name)
            base = self._manifest.get(name, "")
            if inside.hash != outside.hash and outside.hash not in ("", base) and name not in force:
                if inside.hash != base:  # else it waits to be imported
                    conflicts.append(Plan(name, Step.CONFLICT, inside, outside))
                continue
            if inside.text is None:
                if self.catalog.errors:
                    continue  # it may be the one that is wrong there
                remove_file(outside.path)
                agreed.pop(name, None)
                continue
            if inside.hash != outside.hash:
                write_file(outside.path, inside.text, None)
            agreed[name] = inside.hash
        self._note(agreed)
        return conflicts

    def _plan(self, name: str, ours: bool, theirs: bool) -> Plan:
        inside, outside = self._sides(name)
        base = self._manifest.get(name, "")
        if inside.hash == outside.hash:
            step = Step.SAME
        elif outside.text is None and not base:
            step = Step.LEFT
        elif ours or inside.hash == base:
            step = Step.REMOVE if outside.text is None else Step.CHANGE if inside.text else Step.ADD
        elif theirs or outside.hash == base:
            step = Step.BEHIND
        else:
            step = Step.CONFLICT
        return Plan(name, step, inside, outside)

    def _sides(self, name: str) -> tuple[Side, Side]:
        inside = Path(self.catalog.directory) / f"{name}.yaml"
        outside = self.directory / f"{name}.yaml"
        return (
            self._inside.get(name, Side(inside, None)),
            self._outside.get(name, Side(outside, None)),
        )

    def _read_manifest(self) -> dict[str, str]:
        path = self.directory / MANIFEST
        try:
            manifest = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{path} cannot be read ({error}). Restore it from git, or remove it; then "
                "every difference is a conflict."
            ) from None
        if not isinstance(manifest, dict) or not all(
            isinstance(digest, str) for digest in manifest.values()
        ):
            raise ConfigurationError(f"{path} was not written by an export. Restore it from git.")
        return manifest

    def _note(self, agreed: dict[str, str]) -> None:
        text = json.dumps(agreed, indent=2, sort_keys=True) + "\n"
        write_file(self.directory / MANIFEST, text, None)


def folder_of(catalog: EnvironmentCatalog, directory: Path) -> EnvironmentCatalog:
    """Read ``directory`` as the catalog is read, by the same rules."""
    folder = EnvironmentCatalog(
        config=catalog.config,
        directory=str(directory),
        kept_directory=str(directory / ".kept"),
        offer_untested=True,
    )
    folder.log.setLevel("CRITICAL")  # what it would write there is printed here
    folder.load_now()
    return folder


def errors_of(catalog: EnvironmentCatalog, path: Path) -> tuple[int, tuple[CatalogError, ...]]:
    """Return the number of environments in a file or folder, and its errors. Raises NotFound."""
    if path.is_dir():
        folder = folder_of(catalog, path)
        return len(folder.environments), tuple(
            error.model_copy(update={"file": str(path / error.file)}) for error in folder.errors
        )
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.") from None
    reading = read_definition(raw, str(path), catalog.rules, catalog.max_size)
    return int(reading.environment is not None), reading.errors


def _texts(catalog: EnvironmentCatalog) -> dict[str, Side]:
    """Return each file's own text, with its comments, by name."""
    sides = {}
    for name, source in catalog.sources.items():
        if "/" not in source.file:
            path = Path(catalog.directory) / source.file
            sides[name] = Side(path, path.read_bytes().decode("utf-8"))
    return sides


def _whole_lines(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
