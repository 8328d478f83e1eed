"""Request of a ``%%gpu`` cell: its options, and the kernel in a job of its own that fits them."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .variables import LIMIT, MIB

SPECS = "PORTAL_KERNEL_SPECS"  # folder of the kernelspecs (`job_specs.FOLDER`)
BROKER = "PORTAL_KERNEL_BROKER"  # `broker_client.VARIABLE`
IN_JOB = "PORTAL_KERNEL"  # set in a kernel that has a job of its own (`starter.VARIABLE`)
IN_RUN = "PORTAL_RUN_POINT"  # set in a point of a run (`runs.environment.POINT`)
OWN = "PORTAL_KERNEL_NAME"  # kernelspec of the notebook's kernel (`environment`)
IDLE = 60.0  # seconds
LARGEST = 900  # MiB: below that of one message (`wire.link.LARGEST`)
_METADATA = "portal_job_kernel"  # `job_specs.METADATA`
_USUAL = {"environment", "kernel", "gpus", "gpu_type"}  # of a kernelspec that everybody is offered
_PATIENCE = 20.0  # seconds until a new session knows what it is offered
_USAGE = (
    "%%gpu [TYPE] [--gpus N] [--time MIN] [--in a,b] [--out c,d] [--idle SECONDS] [--limit MIB]"
)


class GpuError(Exception):
    """Failure of ``%%gpu`` itself, as one sentence."""

    def _render_traceback_(self) -> list[str]:  # called by IPython
        return [f"\x1b[0;31m{type(self).__name__}\x1b[0m: {self}"]


class Options(NamedTuple):
    """Options of a cell."""

    gpu_type: str  # "": the first one of the environment
    gpus: int
    minutes: int  # 0: the environment's default
    sent: tuple[str, ...]
    wanted: tuple[str, ...]
    idle: float  # seconds
    limit: int  # bytes


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise GpuError(f"{message[:1].upper()}{message[1:]}. Usage: {_USAGE}")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if not name.isidentifier():
            raise argparse.ArgumentTypeError(f"'{name}' is not a variable name")
    return names


def _whole(least: int, most: int) -> Any:
    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}")
        return int(text)

    return read


def _parser() -> _Parser:
    parser = _Parser(prog="%%gpu", add_help=False, allow_abbrev=False)
    parser.add_argument("gpu_type", nargs="?", default="")
    parser.add_argument("--gpus", type=_whole(1, 1024), default=1)
    parser.add_argument("--time", dest="minutes", type=_whole(1, 999 * 60), default=0)
    parser.add_argument("--in", dest="sent", type=_names, default=())
    parser.add_argument("--out", dest="wanted", type=_names, default=())
    parser.add_argument("--idle", type=_whole(0, 86_400), default=int(IDLE))
    parser.add_argument("--limit", type=_whole(1, LARGEST), default=LIMIT // MIB)
    return parser


def parse(line: str) -> Options:
    """Return the options of a cell's first line. Raises GpuError."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise GpuError(f"The line cannot be read: {error}. Usage: {_USAGE}") from None
    read = vars(_parser().parse_args(words))
    return Options(**{**read, "idle": float(read["idle"]), "limit": read["limit"] * MIB})


class JobKernel(NamedTuple):
    """Kernel to start: the argv of its relay, with "{connection_file}", and ``request``, what the
    service is asked for."""

    argv: list[str]
    request: dict[str, Any]

    @property
    def title(self) -> str:
        """The GPUs in words."""
        gpus, gpu_type = self.request["gpus"], self.request.get("gpu_type", "")
        if not gpu_type:
            return f"{gpus} GPU{'s' * (gpus != 1)}"
        return f"{gpus} \N{MULTIPLICATION SIGN} {gpu_type.upper()}"


def choose(options: Options, environ: Mapping[str, str], patience: float = _PATIENCE) -> JobKernel:
    """Return the kernel of this environment that fits the options. Raises GpuError with a sentence
    if there is none here."""
    if environ.get(IN_JOB):
        raise GpuError("This kernel already runs in its own Slurm job. Run the cell without %%gpu.")
    if environ.get(IN_RUN):
        raise GpuError(
            "This is a point of a run, which has its own GPUs. Remove '%%gpu' from the cell, and "
            "start the run with '--gpus 1'."
        )
    if not environ.get(BROKER) or not environ.get(SPECS):
        raise GpuError("GPUs for single cells are not offered in this session.")
    folder, deadline = Path(environ[SPECS]), time.monotonic() + patience
    while not (offered := _offered(folder / "kernels")):
        if reason := _refusal(folder):
            raise GpuError(reason)
        if time.monotonic() > deadline:
            raise GpuError("The portal offers no kernels with GPUs to this session.")
        time.sleep(0.5)
    environment = environ.get("PORTAL_ENVIRONMENT", "")
    of_environment = [spec for spec in offered if spec["request"]["environment"] == environment]
    own = [spec for spec in of_environment if spec["request"]["kernel"] == environ.get(OWN)]
    specs = own or _of_one_kernel(of_environment)
    if not specs:
        raise GpuError(
            f"The environment '{environment}' has no Python kernel that is offered with GPUs."
        )
    wanted = options.gpu_type.lower()
    types = [str(spec["request"].get("gpu_type", "")) for spec in specs]
    if wanted and wanted not in types:
        named_types = ", ".join(name for name in types if name) or "none with a type"
        raise GpuError(
            f"GPUs of type '{options.gpu_type}' are not offered. Available: {named_types}."
        )
    spec = specs[types.index(wanted)] if wanted else specs[0]
    request = {**spec["request"], "gpus": options.gpus}
    if options.minutes:
        hours, minutes = divmod(options.minutes, 60)
        request["time"] = f"{hours}:{minutes:02}:00"
    return JobKernel(_relay(spec["argv"], request), request)


def _refusal(folder: Path) -> str:
    """Return why the portal offers no kernels, "" if that is not known (`specs.note_refusal`)."""
    try:
        return (folder / "refusal").read_text()
    except OSError:
        return ""


def _of_one_kernel(specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those with the kernel of the first; the notebook's own is not among them."""
    return [spec for spec in specs if spec["request"]["kernel"] == specs[0]["request"]["kernel"]]


def _offered(folder: Path) -> list[dict[str, Any]]:
    """Return argv and request of the kernelspecs of Python with one GPU, by name."""
    specs = []
    for path in sorted(folder.glob("job-*/kernel.json")):
        try:
            content = json.loads(path.read_text())
            request, argv = dict(content["metadata"][_METADATA]), list(content["argv"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if content.get("language") == "python" and set(request) <= _USUAL and request["gpus"] == 1:
            specs.append({"argv": argv, "request": request})
    return specs


def _relay(argv: list[str], request: dict[str, Any]) -> list[str]:
    """Return the argv of a relay that has no kernelspec, and whose job ends with this kernel."""
    if not os.access(argv[0], os.X_OK):
        raise GpuError("%%gpu does not work in environments whose server runs beside a container.")
    changed = {"--request": json.dumps(request), "--spec": ""}
    parts = [changed.get(before, part) for before, part in zip(["", *argv], argv)]
    return [*parts, "--owner", str(os.getpid())]
