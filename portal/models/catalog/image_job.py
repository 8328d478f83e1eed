"""Jobs that builds and tests are: what they are told, what they say, how far they are."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .. import Frozen
from .environment import Environment, Kernel, Server


class Work(StrEnum):
    """What the job does."""

    BUILD = "build"
    TEST = "test"
    CACHE = "cache"  # unpacks an image on the node


class WorkState(StrEnum):
    """How far it is. UNKNOWN: it could not be run (Slurm, a node), which says nothing of the
    image."""

    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


LIVE = frozenset({WorkState.WAITING, WorkState.RUNNING})


class Event(Frozen):
    """One line of progress from the job. ``step`` is a word of the work ("pull", "probe",
    "install", "verify", "kernel python3"); ``share`` of the step from 0 to 1, where it is known."""

    at: float
    step: str
    message: str = ""
    share: float | None = None
    result: dict[str, Any] | None = None  # the last event of a job that came to its end
    error: str = ""  # a sentence: why it failed
    could_not_run: bool = False  # with ``error``: nothing is said of the image (UNKNOWN)


class KernelResult(Frozen):
    """How one kernel did: ``print(1)`` (in its own language) within ``seconds``."""

    kernel: Kernel
    passed: bool
    seconds: float = 0.0
    version: str = ""  # of the language
    reason: str = ""  # why it did not pass


class Facts(Frozen):
    """What is inside an environment. ``versions``: "python", "torch", "cuda", "driver", "cudnn",
    "nccl", "mpi"… to their versions, those that are there. ``packages``: "name==version" of the
    kernel's Python, as pip freeze says. ``added``: what the build added to it."""

    architecture: str = ""
    distribution: str = ""  # "Debian GNU/Linux 12 (bookworm)"
    versions: dict[str, str] = {}
    packages: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


class BuildResult(Frozen):
    """What a build made. ``image``: path of the finished SIF; ``size`` in bytes; ``sha256`` of the
    file; ``server`` and ``python`` belong into the environment."""

    image: str
    digest: str
    size: int
    sha256: str
    server: Server
    python: str | None
    kernels: tuple[Kernel, ...]
    facts: Facts = Facts()
    signed: bool = False


class TestResult(Frozen):
    """What a smoke test found. ``gpus``: how many were seen; ``simulated``: the GPUs of this site
    are, so nothing was looked for. ``mark``: size and mtime_ns of the image file that was tested;
    None for directories."""

    __test__ = False  # not a test of pytest's

    server: Server
    server_seconds: float
    kernels: tuple[KernelResult, ...]
    gpu_type: str = ""  # "": without GPUs
    gpus: int = 0
    simulated: bool = False
    facts: Facts = Facts()
    mark: tuple[int, int] | None = None


class ImageJob(Frozen):
    """What the job is told, as JSON in its environment. Nothing secret is in it: ``auth_file``
    names a file that the job reads and that is removed.

    ``nonce`` marks the job's own lines in its log; no container gets to know it.
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
    options: dict[str, Any] = {}
