"""Contents of a project's file: what it was imported with, its environments as the catalog has them
now, and the runs that have succeeded in it since."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from portal.catalog.files import EnvironmentCatalog
from portal.models.catalog.environment import Environment
from portal.models.session.run import PointState, Run
from portal.models.session.run_conditions import RunConditions, Software
from portal.safe_path import unsafe
from portal.store import Store
from portal.work.run.tables.conditions import RunConditionTable
from portal.work.run.tables.points import PointKeys, RunPointTable
from portal.work.run.tables.runs import RunTable

from ..models import Project
from .document import (
    LARGEST_POINTS,
    LONGEST,
    MOST_POINTS,
    MOST_RUNS,
    BestValues,
    Contents,
    FileEnvironment,
    FileRun,
    portable,
)
from .tables import ProjectContentTable, ProjectRepetitionTable

_LONGEST = LONGEST // 2  # characters as JSON; YAML has more, and the project and its members
_SHORTENED = 200  # characters of a parameter that reports have whole
_MOST_PARAMETERS = 50
_MOST_NAMED = 10  # runs that are left out


async def contents_of(
    catalog: EnvironmentCatalog, store: Store, project: Project, folder: str
) -> tuple[Contents, str]:
    """Return the contents of a project's file, and a sentence on the runs that are left out, "" if
    none is.
    ``folder``: the project's, "" without one. Raises StoreUnavailable."""
    imported = (await store.table(ProjectContentTable).of_project(project.name)).contents
    writing = _Writing(imported)
    repeated = {
        (row.user, row.run)
        for row in await store.table(ProjectRepetitionTable).of_project(project.name)
    }
    runs = await store.table(RunTable).ended_of_project(project.name, MOST_RUNS)
    own = [run for run in runs if (run.user, run.id) not in repeated]
    conditions = await store.table(RunConditionTable).of_runs([(run.user, run.id) for run in own])
    for run in own:
        points = await store.table(RunPointTable).keys(run.user, run.id)
        source = _below(run.source, folder, project.name)
        writing.add_run(run, source, points, conditions.get((run.user, run.id), RunConditions()))
    await catalog.load()
    environments = _environments(catalog.environments, project, imported, writing.runs)
    contents = Contents(
        environments=tuple(environments),
        starters=imported.starters,
        runs=tuple(writing.runs),
        software=writing.software,
    )
    return contents, writing.words


def environment_of(environment: Environment) -> FileEnvironment:
    """Return what a file says of an environment of the catalog."""
    values: dict[str, Any] = {
        name: getattr(environment, name)
        for name in ("name", "kind", "source", "image", "path", "modules")
    }
    return FileEnvironment(**values, digest=environment.digest or "")


def best_values(points: Sequence[PointKeys]) -> dict[str, BestValues]:
    """Return the lowest and highest value of each metric."""
    names = dict.fromkeys(name for point in points for name in point.metrics)
    values = {name: [p.metrics[name] for p in points if name in p.metrics] for name in names}
    return {
        name: BestValues(lowest=min(found), highest=max(found)) for name, found in values.items()
    }


class _Writing:
    """Runs of a file that grows: those that it was imported with come first."""

    def __init__(self, imported: Contents) -> None:
        self.runs = list(imported.runs)
        self.software = dict(imported.software)
        self.left_out: list[str] = []
        self._size = len(imported.model_dump_json())

    def add_run(
        self, run: Run, source: str, points: Sequence[PointKeys], known: RunConditions
    ) -> None:
        """Add a run, or note why it is left out."""
        problem = _problem(run, source, points)
        if not problem and len(self.runs) >= MOST_RUNS:
            problem = f"is one of more than {MOST_RUNS}"
        if problem:
            self.left_out.append(f"the run '{run.name}' {problem}")
            return
        key, software = self._software(known.software)
        image = {"image": run.digest} if run.digest else {}
        added = FileRun(
            name=self._name(run.name),
            source=source,
            environment=run.environment,
            resources=portable(dict(run.resources)),
            points=tuple(dict(point.parameters) for point in points),
            metrics=dict(itertools.islice(best_values(points).items(), 50)),
            conditions=known.conditions.model_copy(update=image),
            software=key,
        )
        size = len(added.model_dump_json()) + len(json.dumps([*software]))
        size += sum(len(each.model_dump_json()) for each in software.values())
        if self._size + size > _LONGEST:
            self.left_out.append(f"the run '{run.name}' has no room: a file is {LONGEST:,} long")
            return
        self._size += size
        self.runs.append(added)
        self.software |= software

    @property
    def words(self) -> str:
        """Sentence on what is left out."""
        more = len(self.left_out) - _MOST_NAMED
        names = [*self.left_out[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
        return f"Left out: {'; '.join(names)}." if names else ""

    def _software(self, software: Software) -> tuple[str | None, dict[str, Software]]:
        """Return the name of the entry with this software, and what is to be added for it."""
        if not software.python:
            return None, {}
        for name, known in self.software.items():
            if known == software:
                return name, {}
        names = (f"python-{software.python[:20]}-{number}" for number in itertools.count(1))
        name = next(name for name in names if name not in self.software)
        return name, {name: software}

    def _name(self, name: str) -> str:
        taken = {run.name for run in self.runs}
        endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
        return next(
            free for end in endings if (free := f"{name[: 60 - len(end)]}{end}") not in taken
        )


def _problem(run: Run, source: str, points: Sequence[PointKeys]) -> str:
    """Return why a run cannot be in a file, as the end of a sentence; "" if it can."""
    if not source:
        return "has its source outside of the project's folder"
    if run.points > MOST_POINTS:
        return f"has more than {MOST_POINTS} points"
    if len(points) < run.points or any(p.state is not PointState.SUCCEEDED for p in points):
        return "has points that have not succeeded"
    parameters = [point.parameters for point in points]
    if any(_is_shortened(values) for values in parameters):
        return "has parameters that are too long"
    if len(json.dumps([dict(values) for values in parameters])) > LARGEST_POINTS:
        return "has too many parameters"
    return ""


def _is_shortened(values: Mapping[str, Any]) -> bool:
    """Return True if reports may not have all parameters, or not whole."""
    texts = [value for value in values.values() if isinstance(value, str)]
    cut = any(len(text) >= _SHORTENED or "\ufffd" in text for text in texts)
    return cut or len(values) >= _MOST_PARAMETERS


def _below(source: str, folder: str, name: str) -> str:
    """Return the path of a run's source below the project's folder, or without one below a folder
    of that name; "" if it is elsewhere, or no path that a file can have."""
    before = f"{folder}/" if folder else f"/{name}/"
    if folder and not source.startswith(before):
        return ""
    path = source.partition(before)[2]
    return "" if not path or unsafe(path) else path


def _environments(
    known: Mapping[str, Environment], project: Project, imported: Contents, runs: Sequence[FileRun]
) -> Iterator[FileEnvironment]:
    """Yield the environments that the file names, without those of one user."""
    before = {each.name: each for each in imported.environments}
    starters = [starter.environment for starter in imported.starters if starter.environment]
    names = [*project.environments, *before, *starters, *(run.environment for run in runs)]
    for name in dict.fromkeys(names):
        environment = known.get(name)
        if environment is not None and not environment.private:
            yield environment_of(environment)
        elif name in before:
            yield before[name]
