"""Document of a project, ``project.yaml``: its definition and members, its environments by digest,
its starters, and its runs with their parameters and the best values of their metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from portal.catalog.definitions.document import read_document
from portal.catalog.definitions.yaml_text import document_text
from portal.errors import ConfigurationError, InvalidRequest
from portal.models import Frozen
from portal.models.catalog.environment import EnvironmentKind, Name
from portal.models.plain_text import PLAIN_LINE, PLAIN_TEXT
from portal.models.session.resources import Resources
from portal.models.session.run import (
    Digest,
    Metric,
    MetricName,
    Parameter,
    ParameterName,
    RunName,
)
from portal.models.session.run_conditions import Conditions, Software
from portal.models.space import Login, Role
from portal.safe_path import unsafe

from ..models import Project, ProjectMember
from ..people.members import MOST

LONGEST = 200_000  # characters of a document
MOST_RUNS = 50
MOST_POINTS = 200  # of a run in a document
LARGEST_POINTS = 50_000  # characters of all points of a run, as JSON
_People = Annotated[tuple[Login, ...], Field(max_length=MOST)]
_LISTS = {"owners": Role.OWNER, "members": Role.MEMBER, "readers": Role.READER}
# Resources that mean the same on another site; its partitions and accounts are its own.
_PORTABLE = frozenset({"gpus", "cpus", "memory", "time", "nodes"})
_Place = Annotated[str, StringConstraints(min_length=1, max_length=1024), *PLAIN_TEXT]
_Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")]


def _inside(path: str) -> str:
    """Return a path below the project's folder. Raises ValueError."""
    if path.startswith(("/", "~")):
        raise ValueError("must be relative to the folder of the project")
    if problem := unsafe(path):
        raise ValueError(problem)
    return path


def _runs(path: str) -> str:
    if not path.endswith((".py", ".ipynb")):
        raise ValueError("must be a notebook (.ipynb) or a script (.py)")
    return path


def _elsewhere_too(resources: Resources) -> Resources:
    """Return resources without those of one site. Raises ValueError if there are any."""
    if others := resources.given().keys() - _PORTABLE:
        raise ValueError(f"'{min(others)}' is for one site only; leave it out")
    return resources


RelativePath = Annotated[
    str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_inside)
]
Portable = Annotated[Resources, AfterValidator(_elsewhere_too)]
_Title = Annotated[
    str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True), *PLAIN_LINE
]


class People(Frozen):
    """Members by user name, without those of a group of the directory."""

    owners: _People = ()
    members: _People = ()
    readers: _People = ()

    def roles(self) -> dict[str, Role]:
        """Return each person's role: the highest, for a person in several lists."""
        named = [(name, role) for field, role in _LISTS.items() for name in getattr(self, field)]
        return dict(reversed(named))


class FileEnvironment(Frozen):
    """Environment as the catalog had it. ``source``: what its image is built from; ``image``,
    ``path``, ``modules``: where its site has it; ``digest``: of the image."""

    name: Name
    kind: EnvironmentKind
    source: _Place | None = None
    image: _Place | None = None
    path: _Place | None = None
    modules: Annotated[tuple[_Place, ...], Field(max_length=200)] = ()
    digest: Digest = ""


class Starter(Frozen):
    """File that is opened in a session of the project, with this environment and resources."""

    title: _Title
    path: RelativePath
    environment: Name | None = None
    resources: Portable = Resources()


class BestValues(Frozen):
    """Lowest and highest value of a metric, of all points."""

    lowest: Metric
    highest: Metric


class FileRun(Frozen):
    """Run of a notebook or script. ``points``: the parameters of each; ``metrics``: its results;
    ``software``: the name of an entry of the document's."""

    name: RunName
    source: Annotated[RelativePath, AfterValidator(_runs)]
    environment: Name
    resources: Portable = Resources()
    points: Annotated[
        tuple[Annotated[dict[ParameterName, Parameter], Field(max_length=50)], ...],
        Field(min_length=1, max_length=MOST_POINTS),
    ] = ({},)
    metrics: Annotated[dict[MetricName, BestValues], Field(max_length=50)] = {}
    conditions: Conditions = Conditions()
    software: _Key | None = None

    @model_validator(mode="after")
    def _is_short(self) -> Self:
        if len(json.dumps(self.points)) > LARGEST_POINTS:
            raise ValueError(f"the points of a run take at most {LARGEST_POINTS:,} characters")
        return self


class Contents(Frozen):
    """Contents of a document beside the definition and the members."""

    environments: Annotated[tuple[FileEnvironment, ...], Field(max_length=200)] = ()
    starters: Annotated[tuple[Starter, ...], Field(max_length=50)] = ()
    runs: Annotated[tuple[FileRun, ...], Field(max_length=MOST_RUNS)] = ()
    software: Annotated[dict[_Key, Software], Field(max_length=MOST_RUNS)] = {}

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for what, names in (
            ("environments", [each.name for each in self.environments]),
            ("starters", [each.title for each in self.starters]),
            ("runs", [each.name for each in self.runs]),
        ):
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"'{min(twice)}' is twice in the {what}")
        for run in self.runs:
            if run.software is not None and run.software not in self.software:
                raise ValueError(f"the run '{run.name}' names no software of this file")
        return self

    def run(self, name: str) -> FileRun | None:
        """Return the run of this name; None without one."""
        return next((run for run in self.runs if run.name == name), None)

    def software_of(self, run: FileRun) -> Software:
        """Return the Python and packages of a run."""
        return self.software[run.software] if run.software else Software()


class ProjectFile(Contents):
    """Document with a project. ``format``: of the document."""

    format: Annotated[int, Field(ge=1, le=1, strict=True)] = 1
    project: Project
    people: People = People()

    @property
    def contents(self) -> Contents:
        """All but the definition and the members."""
        return Contents(**{name: getattr(self, name) for name in Contents.model_fields})


def read_project(text: str, **changes: Any) -> ProjectFile:
    """Parse a document; ``changes`` replace keys of its project, unless they are None. Raises
    InvalidRequest with the line and the key."""
    if len(text) > LONGEST:
        raise InvalidRequest(f"The file is longer than {LONGEST:,} characters.", "text")
    try:
        document = read_document(text.encode("utf-8", "replace"))
    except ConfigurationError as error:
        raise InvalidRequest(f"The file is no YAML document. {error.message}", "text") from None
    values = document.data
    given = {name: value for name, value in changes.items() if value is not None}
    if given and isinstance(values, dict) and isinstance(values.get("project"), dict):
        values = {**values, "project": {**values["project"], **given}}
    try:
        return ProjectFile.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])[:100]
        words = str(first["msg"]).removeprefix("Value error, ")
        line = document.line_of(tuple(first["loc"]))
        raise InvalidRequest(f"Line {line}: '{where}': {words}.", "text") from None


def project_text(project: Project, members: Iterable[ProjectMember], contents: Contents) -> str:
    """Return the document of a project, without members that come from the directory's group."""
    given = project.model_dump(mode="json", exclude_defaults=True)
    listed = [member for member in members if member.source == "list"]
    people = {
        field: [member.person for member in listed if member.role is role]
        for field, role in _LISTS.items()
    }
    values: dict[str, Any] = {
        "format": 1,
        "project": {name: given[name] for name in Project.model_fields if name in given},
        "people": {field: names for field, names in people.items() if names},
        **contents.model_dump(mode="json", exclude_defaults=True),
    }
    return document_text(values)


def portable(resources: dict[str, Any]) -> Resources:
    """Return those of a run's resources that mean the same on another site."""
    return Resources(**{name: resources[name] for name in _PORTABLE & resources.keys()})
