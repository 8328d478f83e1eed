"""Jobs of image builds and tests: their input, events, results and states."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .. import Frozen
from .environment import Environment, Kernel, Server


class Work(StrEnum):
    """Kind of work that a job does."""

    BUILD = "build"
    TEST = "test"
    CACHE = "cache"  # unpacks an image on the node


class WorkState(StrEnum):
    """State of the work. UNKNOWN: it could not be run (Slurm, a node), which says nothing about
    the image."""

    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


LIVE = frozenset({WorkState.WAITING, WorkState.RUNNING})


class Event(Frozen):
    """Progress message from the job. ``step`` names the current step ("pull", "probe", "install",
    "verify", "kernel python3"); ``share``: part of the step that is done, 0 to 1, if known."""

    at: float
    step: str
    message: str = ""
    share: float | None = None
    result: dict[str, Any] | None = None  # the last event of a job that came to its end
    error: str = ""  # a sentence: why it failed
    could_not_run: bool = False  # with ``error``: says nothing about the image (UNKNOWN)


class KernelResult(Frozen):
    """Test result of a kernel: ``print(1)`` (in its own language) within ``seconds``."""

    kernel: Kernel
    passed: bool
    seconds: float = 0.0
    version: str = ""  # of the language
    reason: str = ""  # why it did not pass


class Facts(Frozen):
    """Software inside an environment."""

    architecture: str = ""
    distribution: str = ""  # "Debian GNU/Linux 12 (bookworm)"
    # Of "python", "torch", "cuda", "driver", "nccl"…, as far as present.
    versions: dict[str, str] = {}
    packages: tuple[str, ...] = ()  # "name==version" of the kernel's Python, as from pip freeze
    added: tuple[str, ...] = ()  # packages that the build added to it


class BuildResult(Frozen):
    """Result of a build."""

    image: str  # path of the finished SIF
    digest: str
    size: int  # bytes
    sha256: str  # of the file
    server: Server  # to be set in the environment, as is ``python``
    python: str | None
    kernels: tuple[Kernel, ...]
    facts: Facts = Facts()
    signed: bool = False


class TestResult(Frozen):
    """Result of a smoke test."""

    __test__ = False  # not a test of pytest's

    server: Server
    server_seconds: float
    kernels: tuple[KernelResult, ...]
    gpu_type: str = ""  # "": without GPUs
    gpus: int = 0
    simulated: bool = False  # this site's GPUs are simulated, so none were looked for
    facts: Facts = Facts()
    # Size and mtime_ns of the tested image file; None for directories.
    mark: tuple[int, int] | None = None


class ImageJob(Frozen):
    """Input of the job, as JSON in its environment. It holds no secrets: ``auth_file`` names a
    file that the job reads and that is removed.

    ``nonce`` marks the job's own lines in its log; containers never get it.
    """

    work: Work
    nonce: str
    environment: Environment
    apptainer: str
    directory: str = ""  # of images
    source: str = ""  # pinned, for BUILD
    digest: str = ""
    target: str = ""  # the SIF to make, or the directory to unpack into
    size: int = 0  # bytes to be pulled, where that is known
    scratch: str = ""  # folder for what a build unpacks; empty: ``directory``
    auth_file: str = ""
    registries_conf: str = ""  # mirrors, as containers-registries.conf(5) has them
    wheels: str = ""  # folder with the wheel of portal-session
    sign_key: str = ""
    verify: bool = False
    keyring: str = ""
    beside: str = ""  # the virtual environment on the nodes for servers beside their container
    gpu_type: str = ""
    gpus: int = 0
    gpu_vendor: str = "nvidia"  # a name of portal/gpus/
    simulated_gpus: bool = False
    guards: tuple[tuple[str, ...], ...] = ()  # argv that check the programs of the environment
    options: dict[str, Any] = {}
