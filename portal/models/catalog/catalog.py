"""What the portal remembers about environments: versions, builds, tests, requests, measurements."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import Field, StringConstraints, WrapSerializer, model_validator

from .. import Frozen
from ..plain_text import PLAIN_LINE, PLAIN_TEXT
from .environment import Environment, EnvironmentState
from .image_job import WorkState

_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:[0-9]{1,5})?"


class Origin(StrEnum):
    """Where a version was written."""

    PAGE = "page"  # in the browser or through the API
    FILE = "file"  # in the catalog's directory
    BUILD = "build"  # a build filled in what it made


def _as_said(values: dict[str, Any], environment: Environment) -> dict[str, Any]:
    """No GPUs, said on purpose, is another thing than nothing said: who edits what is shown here
    must not say what nobody has said."""
    said = environment.default.model_fields_set
    kept = {name: value for name, value in values["default"].items() if name in said}
    return {**values, "default": kept}


class EnvironmentVersion(Frozen):
    """One version of an environment. Numbers count from 1 for each name.

    ``file_hash``: of the file's bytes, once it was published or where it came from a file.
    ``base``: the number that it was edited from. Times are Unix seconds.
    """

    id: int
    name: str
    number: int
    state: EnvironmentState
    # No annotations: then the schema stays that of Environment.
    environment: Annotated[
        Environment, WrapSerializer(lambda value, given: _as_said(given(value), value))
    ]
    author: str
    at: float
    origin: Origin
    comment: str = ""
    message: str = ""  # why it failed
    base: int | None = None
    build_id: int | None = None
    file_hash: str = ""
    published_at: float | None = None


class Build(Frozen):
    """One build of an image. ``key`` names what comes out (digest and recipe): whoever asks for
    the same joins in (``askers``). ``log``: name of the log file in the folder of logs."""

    id: int
    key: str
    source: str
    digest: str
    state: WorkState
    askers: tuple[str, ...]
    job_id: str = ""
    nonce: str = Field(default="", exclude=True)
    log: str = ""
    step: str = ""
    share: float | None = None
    message: str = ""
    asked_at: float
    started_at: float | None = None
    ended_at: float | None = None
    result: dict[str, Any] | None = None  # BuildResult


class EnvironmentTest(Frozen):
    """One smoke test of a version, on one GPU type ("" is without GPUs)."""

    id: int
    fingerprint: str
    name: str
    number: int | None  # None: of a file that is no version yet
    gpu_type: str
    state: WorkState
    asker: str
    job_id: str = ""
    nonce: str = Field(default="", exclude=True)
    log: str = ""
    step: str = ""
    message: str = ""
    asked_at: float
    started_at: float | None = None
    ended_at: float | None = None
    result: dict[str, Any] | None = None  # TestResult


class Verdict(Frozen):
    """What the newest finished test says of one fingerprint on one GPU type."""

    fingerprint: str
    gpu_type: str
    passed: bool
    message: str
    at: float
    mark: tuple[int, int] | None = None  # TestResult.mark
    facts: dict[str, Any] = {}


class RequestState(StrEnum):
    """How far a request for an environment is."""

    OPEN = "open"
    DONE = "done"
    DECLINED = "declined"


class EnvironmentRequestDraft(Frozen):
    """What a person asks for: an image or software, and what for; one of them at least."""

    source: Annotated[
        str, StringConstraints(max_length=1024, strip_whitespace=True), *PLAIN_LINE
    ] = ""
    text: Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True), *PLAIN_TEXT] = (
        ""
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> EnvironmentRequestDraft:
        if not self.source and not self.text:
            raise ValueError("say what you need, or which image")
        return self


class EnvironmentRequest(EnvironmentRequestDraft):
    """One request as it is kept."""

    id: int
    person: str
    state: RequestState
    at: float
    answer: str = ""
    answered_by: str = ""
    answered_at: float | None = None
    environment: str = ""  # the name of what was made of it


class MeasurementReport(Frozen):
    """What a benchmark notebook tells. ``gpus``: on how many of the session's GPUs it ran; 0 is on
    CPUs. Of which type they are, Slurm says."""

    benchmark: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    precision: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{2,8}$")]
    gpus: Annotated[int, Field(ge=0, le=4096, strict=True)]
    images_per_second: Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]


class Measurement(MeasurementReport):
    """What a benchmark notebook measured at this site."""

    environment: str
    version: int | None
    gpu_type: str  # "": on CPUs
    simulated: bool  # its GPUs are a demo's, and a CPU did their work
    person: str
    session_id: str
    at: float


class Measured(Frozen):
    """What was measured on one type and number of GPUs, in one precision. ``images_per_second`` is
    the median of the ``runs``; ``at``: when the newest was, Unix seconds."""

    benchmark: str
    gpu_type: str  # "": on CPUs
    gpus: int
    precision: str
    simulated: bool
    images_per_second: float
    best: float
    runs: int
    at: float


class RegistryDraft(Frozen):
    """A registry that images are pulled from. ``password`` goes in and never comes out;
    ``password_file`` is the path of a file with it instead. ``mirror``: host and port that is
    asked in its place; ``insecure``: the mirror (or the registry) has no TLS or no certificate
    that one can check."""

    host: Annotated[str, StringConstraints(pattern=rf"^{_HOST}$")]
    username: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f:]*$", max_length=255)] = (
        ""
    )
    password: Annotated[
        str | None, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$"), Field(repr=False)
    ] = None
    password_file: Annotated[str, StringConstraints(pattern=r"^(/[^\x00-\x1f\x7f]*)?$")] = ""
    mirror: Annotated[str, StringConstraints(pattern=rf"^({_HOST})?$")] = ""
    insecure: Annotated[bool, Field(strict=True)] = False
    ca_file: Annotated[str, StringConstraints(pattern=r"^(/[^\x00-\x1f\x7f]*)?$")] = ""


class Registry(Frozen):
    """A registry as it is shown: ``has_password``, never the password."""

    host: str
    username: str
    has_password: bool
    password_file: str
    mirror: str
    insecure: bool
    ca_file: str
    author: str
    at: float


class KeptRegistry(NamedTuple):
    """A registry and its password, encrypted; empty: it has none."""

    registry: Registry
    secret: str
