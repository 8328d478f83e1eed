"""Bodies of requests about a project's file and its runs, and of their answers. Times are Unix
seconds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from portal.handlers.base.endpoint import Query
from portal.models import Frozen
from portal.models.session.run import RunId

from .differences import Difference
from .document import FileEnvironment, Starter

_SessionId = Annotated[str, Field(max_length=100, description="Running session of the project.")]


class FileSession(Frozen):
    """Running session of the asker in the project; ``url``: of its server."""

    id: str
    title: str
    url: str


class RepetitionItem(Frozen):
    """Run that repeats one of the file. ``state``: "running" until it has ended; "identical" if
    all conditions that the file knows, and the results, are equal; else "different", with the
    ``differences``."""

    user: str
    run: str
    name: str
    at: float
    state: Literal["running", "identical", "different"]
    differences: tuple[Difference, ...]


class FileRunItem(Frozen):
    """Run in the file. ``points``: their number; ``metrics``: in words; ``unknown``: conditions
    that the file does not say; ``differences``: what will differ if it runs here now."""

    name: str
    source: str
    environment: str
    points: int
    metrics: dict[str, str]
    unknown: tuple[str, ...]
    differences: tuple[Difference, ...]
    repetitions: tuple[RepetitionItem, ...]


class ProjectFileView(Frozen):
    """File of a project as its page shows it.

    ``origin``: the repository; ``left_out``: a sentence on its files; ``files``: "waiting" until a
    session of an owner has brought them, "brought", or ""; ``brought``: what it said;
    ``may_repeat``: whether the asker can start runs in the project.
    """

    origin: str
    left_out: str
    files: Literal["", "waiting", "brought"]
    brought: str
    environments: tuple[FileEnvironment, ...]
    starters: tuple[Starter, ...]
    runs: tuple[FileRunItem, ...]
    sessions: tuple[FileSession, ...]
    may_repeat: bool


class PreviewQuery(Query):
    """Session that would start the run."""

    session: _SessionId = ""


class RepetitionPreview(Frozen):
    """Differences of a repetition, as far as they are known before the run starts."""

    differences: tuple[Difference, ...]


class AskedRepetition(Frozen):
    """Repetition that is started by a running ``session``. ``id``: of the new run, chosen by the
    page, so that a request sent twice starts one run."""

    session: Annotated[str, Field(min_length=1, max_length=100)]
    id: RunId | None = None


class StartedFileRun(Frozen):
    """Run that has been started; ``differences``: as of the preview."""

    id: str
    name: str
    differences: tuple[Difference, ...]
