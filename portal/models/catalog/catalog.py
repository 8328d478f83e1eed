"""Records of the catalog: versions of environments, builds, tests, requests, measurements."""

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
    """Origin of a version."""

    PAGE = "page"  # in the browser or through the API
    FILE = "file"  # in the catalog's directory
    BUILD = "build"  # a build filled in what it made


def _as_given(values: dict[str, Any], environment: Environment) -> dict[str, Any]:
    """Return the serialized ``values`` without the default resources that were never set.

    An explicit "no GPUs" differs from no value: saving what is shown here must not set anything.
    """
    fields_set = environment.default.model_fields_set
    default = {name: value for name, value in values["default"].items() if name in fields_set}
    return {**values, "default": default}


class VersionFacts(Frozen):
    """Facts of a version, without its content."""

    number: int
    state: EnvironmentState
    author: str
    at: float
    origin: Origin
    comment: str = ""
    message: str = ""  # why it failed
    base: int | None = None
    build_id: int | None = None
    published_at: float | None = None


class EnvironmentVersion(VersionFacts):
    """Version of an environment. Numbers count from 1 for each name.

    ``file_hash``: hash of the file's bytes, if the version is published or came from a file.
    ``base``: number of the version it was edited from. Times are Unix seconds.
    """

    id: int
    name: str
    # No annotations: then the schema stays that of Environment.
    environment: Annotated[
        Environment, WrapSerializer(lambda value, given: _as_given(given(value), value))
    ]
    file_hash: str = ""


class WorkRecord(Frozen):
    """Work that a job of Slurm does, as stored."""

    id: int
    state: WorkState
    job_id: str = ""
    nonce: str = Field(default="", exclude=True)
    log: str = ""
    step: str = ""
    message: str = ""
    asked_at: float
    started_at: float | None = None
    ended_at: float | None = None
    result: dict[str, Any] | None = None  # BuildResult or TestResult


class Build(WorkRecord):
    """Build of an image. ``key`` identifies the result (digest and recipe): further requests for
    it join this build (``askers``). ``log``: name of the log file in the log folder."""

    key: str
    source: str
    digest: str
    askers: tuple[str, ...]
    share: float | None = None


class EnvironmentTest(WorkRecord):
    """Smoke test of a version on one GPU type ("": without GPUs)."""

    fingerprint: str
    name: str
    number: int | None  # None: of a file that is no version yet
    gpu_type: str
    asker: str


class Verdict(Frozen):
    """Result of the newest finished test of a fingerprint on one GPU type."""

    fingerprint: str
    gpu_type: str
    passed: bool
    message: str
    at: float
    mark: tuple[int, int] | None = None  # TestResult.mark
    facts: dict[str, Any] = {}


class RequestState(StrEnum):
    """State of a request for an environment."""

    OPEN = "open"
    DONE = "done"
    DECLINED = "declined"


class EnvironmentRequestDraft(Frozen):
    """Request for an environment: an image (``source``), or the software needed and its purpose
    (``text``); at least one of them."""

    source: Annotated[
        str, StringConstraints(max_length=1024, strip_whitespace=True), *PLAIN_LINE
    ] = ""
    text: Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True), *PLAIN_TEXT] = (
        ""
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> EnvironmentRequestDraft:
        if not self.source and not self.text:
            raise ValueError("describe what you need, or name an image")
        return self


class EnvironmentRequest(EnvironmentRequestDraft):
    """Request for an environment, as stored."""

    id: int
    person: str
    state: RequestState
    at: float
    answer: str = ""
    answered_by: str = ""
    answered_at: float | None = None
    environment: str = ""  # the name of what was made of it


class MeasurementReport(Frozen):
    """Result as a benchmark notebook reports it. ``gpus``: number of the session's GPUs it ran on;
    0: on CPUs. The GPUs' type is known from Slurm."""

    benchmark: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    precision: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{2,8}$")]
    gpus: Annotated[int, Field(ge=0, le=4096, strict=True)]
    images_per_second: Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]


class Measurement(MeasurementReport):
    """Result of a benchmark notebook at this site."""

    environment: str
    version: int | None
    gpu_type: str  # "": on CPUs
    simulated: bool  # its GPUs are a demo's, and a CPU did their work
    person: str
    session_id: str
    at: float


class Measured(MeasurementReport):
    """Summary of the runs on one type and number of GPUs, in one precision. ``images_per_second``
    is the median of the ``runs``; ``at``: time of the newest one, Unix seconds."""

    gpu_type: str  # "": on CPUs
    simulated: bool
    best: float
    runs: int
    at: float


class RegistryDraft(Frozen):
    """Registry to pull images from. ``password`` is write-only; ``password_file`` is the path of a
    file with the password instead. ``mirror``: host and port to use in its place; ``insecure``:
    the mirror (or the registry) has no TLS, or no certificate that can be verified."""

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
    """Registry as shown: ``has_password``, never the password."""

    host: str
    username: str
    has_password: bool
    password_file: str
    mirror: str
    insecure: bool
    ca_file: str
    author: str
    at: float


class StoredRegistry(NamedTuple):
    """Registry with its encrypted password; empty: it has none."""

    registry: Registry
    secret: str
