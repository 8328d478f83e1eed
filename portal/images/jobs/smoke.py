"""Smoke test of an environment: a session is started as users' sessions are, and checked.

Script (deploy/session.sh), argv (launch.container) and variables are the same as a session's, with
a home of its own that is removed afterwards. In place of the server it starts
``portal_session.check``, which starts the server, runs every kernel and reports what it saw.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import portal.work  # noqa: F401  adds the programs
from portal.errors import PortalError
from portal.gpus import vendor_named
from portal.launch.cause import cause_of
from portal.launch.container import (
    image_environment,
    script_environment,
    session_command,
    session_script,
    session_variables,
)
from portal.launch.programs import programs_of
from portal.models.catalog.environment import Environment, EnvironmentKind, Kernel, Server
from portal.models.catalog.image_job import Event, Facts, ImageJob, KernelResult, TestResult
from portal.models.session.resources import Resources
from portal.models.words import shortened

from .. import log_protocol
from ..apptainer import signing
from ..apptainer.apptainer import Apptainer
from ..outcome import CouldNotRun, WorkFailed
from ..processes import children, end_descendants
from .build_dir import alone

CHECK = "portal_session.check"
_LAST_LINES = 60  # lines of the log that a cause is looked for in
_LONGEST = 4_000_000  # characters of one line; packages are 20,000
# Nothing of the job or of whoever submitted it reaches the session, as in a person's.
_FOREIGN = ("APPTAINERENV_", "SINGULARITYENV_", "PORTAL_", "PYTHON", "JUPYTER")
# Errors of the node, and not of the image.
_NODE = re.compile(
    r"No space left on device|Disk quota exceeded|Cannot allocate memory|/dev/fuse|"
    r"fuse: device not found|user namespace|Resource temporarily unavailable",
    re.IGNORECASE,
)
# An image in which the server itself cannot run: its kernels may, with the server beside it.
_NO_SERVER = re.compile(
    r"No module named '?(portal_session|jupyterlab|jupyter_server|jupyterhub)\b|"
    r"\"?python3\"?: executable file not found|/python3: no such file|unknown option -I|"
    r"This environment cannot run a session|SyntaxError",
    re.IGNORECASE,
)
Report = Callable[[Event], None]


class CheckReport(NamedTuple):
    """Report of the check, by step (kernels in their order), its log's end, its exit status."""

    steps: dict[str, dict[str, Any]]
    kernels: tuple[KernelResult, ...]
    log: str
    status: int


def test(job: ImageJob, report: Report) -> TestResult:
    """Test ``job.environment`` here and now, on the GPUs that this job has.

    With ``job.options["decide"]`` an image that cannot hold the server is tried with the server
    beside it: ``server`` of the result says what works. Raises WorkFailed with a sentence, and
    with the TestResult as far as there is one; CouldNotRun when the node is to blame.
    """
    environment = job.environment
    mark = _mark(job)
    seen = _run(job, environment, report)
    if (
        "server" not in seen.steps
        and job.options.get("decide")
        and environment.kind is EnvironmentKind.CONTAINER
        and environment.server is Server.INSIDE
        and _NO_SERVER.search(seen.log)
    ):
        _say(report, "server", "This image cannot run the server: trying beside the container.")
        environment = environment.model_copy(update={"server": Server.BESIDE})
        seen = _run(job, environment, report)
    result = _result(job, environment, seen, mark)
    reason = _reason(job, seen, result)
    if reason:
        raise WorkFailed(reason, result.model_dump(mode="json"))
    return result


def _mark(job: ImageJob) -> tuple[int, int] | None:
    """Return size and mtime_ns of the image; None if no file. Raises WorkFailed, CouldNotRun."""
    if job.environment.kind is not EnvironmentKind.CONTAINER:
        return None
    image = Path(job.environment.image or "")
    try:
        status = image.stat()
    except FileNotFoundError:
        raise WorkFailed(f"The image {image} does not exist.") from None
    except OSError as error:
        raise WorkFailed(f"The image {image} cannot be read: {error.strerror}.") from None
    if not os.access(job.apptainer, os.X_OK):
        raise CouldNotRun(f"{job.apptainer} is not installed on this node (c.Images.apptainer).")
    if job.verify:
        with tempfile.TemporaryDirectory(prefix="portal-verify-") as home:
            signing.verify(_apptainer(job, home), image)
    return None if image.is_dir() else (status.st_size, status.st_mtime_ns)


def _apptainer(job: ImageJob, home: str) -> Apptainer:
    keys = signing.keyring(job.keyring)
    return Apptainer(job.apptainer, temporary=home, home=home, keyring=keys, log=log_protocol.say)


def _run(job: ImageJob, environment: Environment, report: Report) -> CheckReport:
    """Run the check in ``environment``, with a home that is removed afterwards."""
    before = children()
    try:
        with tempfile.TemporaryDirectory(
            prefix="portal-test-", ignore_cleanup_errors=True
        ) as folder:
            home = str(Path(folder).resolve() / "home")
            Path(home).mkdir(mode=0o700)
            argv, env = _command(job, environment, home)
            try:
                return _checked(argv, env, home, environment, report)
            finally:
                end_descendants(but=before)
    except WorkFailed:
        raise
    except (OSError, PortalError) as error:
        reason = error.message if isinstance(error, PortalError) else f"{error.strerror}."
        raise CouldNotRun(f"The test could not be started: {reason}") from None


def _command(
    job: ImageJob, environment: Environment, home: str
) -> tuple[list[str], dict[str, str]]:
    resources = Resources(gpus=job.gpus, gpu_type=job.gpu_type or None)
    apptainer, vendor = job.apptainer, vendor_named(job.gpu_vendor)
    argv = session_command(
        environment,
        resources,
        home=home,
        apptainer=apptainer,
        beside=job.beside,
        module=CHECK,
        vendor=vendor,
    )
    variables = session_variables(
        environment, resources, home=home, apptainer=apptainer, vendor=vendor
    )
    guards = job.guards or [kind.guard() for kind in programs_of(environment).values()]
    variables["PORTAL_PROGRAMS"] = json.dumps(guards)
    env = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
    account = Path.home()
    env |= script_environment(environment, variables, vendor)
    env |= image_environment(
        environment,
        apptainer=apptainer,
    )
    # Apptainer takes the home from the account, unless it is told another one.
    env |= {"HOME": home, "APPTAINER_HOME": home, "APPTAINER_CONFIGDIR": f"{account}/.apptainer"}
    env |= alone(Path(home).parent, home)
    return [str(session_script()), *argv], env


def _checked(
    argv: list[str], env: dict[str, str], home: str, environment: Environment, report: Report
) -> CheckReport:
    process = subprocess.Popen(
        argv,
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    last: deque[str] = deque(maxlen=_LAST_LINES)

    def follow(stream: Any) -> None:
        for line in _lines(stream):
            last.append(line)
            log_protocol.say(line[:2000])

    reader = threading.Thread(target=follow, args=(process.stderr,), daemon=True)
    reader.start()
    steps: dict[str, dict[str, Any]] = {}
    kernels: list[KernelResult] = []
    try:
        for line in _lines(process.stdout):
            step = _step(line)
            if step is None:
                last.append(line)
                log_protocol.say(line[:2000])
                continue
            steps[step["step"]] = step
            if step["step"] == "kernel" and (kernel := _kernel(step)):
                kernels.append(kernel)
            _tell(report, step, len(kernels), len(environment.kernels))
            if step["step"] == "end":
                break
    finally:
        _end(process)
        reader.join(5)
    return CheckReport(steps, tuple(kernels), "\n".join(last), process.returncode)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process ends by itself after its last line, and kill it if it does not."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _lines(stream: Any) -> Iterator[str]:
    """Yield the lines; split those longer than any of the check's, which the image wrote."""
    while data := stream.readline(_LONGEST):
        yield data.decode("utf-8", "replace").rstrip("\r\n")


def _step(line: str) -> dict[str, Any] | None:
    """Parse a line of portal_session.check; None for other output."""
    if not line.startswith('{"step": "'):
        return None
    try:
        step = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return step if isinstance(step, dict) and isinstance(step.get("step"), str) else None


def _kernel(step: dict[str, Any]) -> KernelResult | None:
    try:
        kernel = Kernel(name=step["name"], title=step["title"][:80], language=step["language"])
        return KernelResult(
            kernel=kernel,
            passed=step["passed"] is True,
            seconds=step["seconds"],
            version=str(step["version"])[:40],
            reason=str(step["reason"])[:500],
        )
    except (KeyError, ValueError, TypeError):
        return None


def _tell(report: Report, step: dict[str, Any], done: int, of: int) -> None:
    name = str(step["step"])[:40]
    if name == "kernel":
        title = str(step.get("title", ""))[:80]
        works = "works" if step.get("passed") is True else "does not work"
        share = min(1.0, done / of) if of else None
        _say(report, f"kernel {str(step.get('name', ''))[:50]}", f"{title} {works}.", share)
    elif name == "server":
        _say(report, name, f"The server answers after {step.get('seconds', 0)} s.")
    elif name in ("terminal", "gpus", "facts"):
        _say(report, name)


def _say(report: Report, step: str, message: str = "", share: float | None = None) -> None:
    report(Event(at=time.time(), step=step, message=message[:500], share=share))


def _result(
    job: ImageJob, environment: Environment, seen: CheckReport, mark: tuple[int, int] | None
) -> TestResult:
    facts, gpus = seen.steps.get("facts", {}), seen.steps.get("gpus", {})
    versions = {
        str(name)[:40]: str(value)[:80] for name, value in (facts.get("versions") or {}).items()
    }
    for result in seen.kernels:
        if result.version:
            language = result.kernel.language.lower()
            old = language == "python" and result.version.startswith("2.")
            versions.setdefault("python2" if old else language, result.version)
    if gpus.get("driver"):
        versions[vendor_named(job.gpu_vendor).driver] = str(gpus["driver"])[:40]
    number = facts.get("gpus")
    names = gpus.get("names") or []
    try:
        return TestResult(
            server=environment.server,
            server_seconds=seen.steps.get("server", {}).get("seconds", 0.0),
            kernels=seen.kernels,
            gpu_type=job.gpu_type,
            gpus=0 if job.simulated_gpus else len(names) if number is None else number,
            simulated=bool(job.simulated_gpus and job.gpus),
            facts=Facts(
                architecture=str(facts.get("architecture", ""))[:40],
                distribution=str(facts.get("distribution", ""))[:200],
                versions=versions,
                packages=tuple(facts.get("packages") or ()),
                added=tuple(facts.get("added") or ()),
            ),
            mark=mark,
        )
    except ValueError:
        raise WorkFailed("The environment's report cannot be read.") from None


def _reason(job: ImageJob, seen: CheckReport, result: TestResult) -> str:
    """Return why the test did not pass; "" if it did. Raises CouldNotRun."""
    end = seen.steps.get("end")
    reason = end.get("reason") if end else None
    if end is None or (reason and "server" not in seen.steps):
        if _NODE.search(seen.log):
            last = next(line for line in reversed(seen.log.splitlines()) if _NODE.search(line))
            raise CouldNotRun(
                f"The test could not run on this node: {shortened(last.strip(), 600)}"
            )
        cause = cause_of(seen.log) or _last_line(seen.log)
        if reason:
            return f"{str(reason)[:500]}{cause}"
        return f"The environment cannot run a session: it ended with code {seen.status}.{cause}"
    if reason:
        return str(reason)[:2000]
    if not all(kernel.passed for kernel in result.kernels):
        return "A kernel does not work."
    return _about_gpus(job, seen, result)


def _last_line(log: str) -> str:
    line = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "")
    return f" Its log ends with: {shortened(line, 600)}" if line else ""


def _about_gpus(job: ImageJob, seen: CheckReport, result: TestResult) -> str:
    if not job.gpus or job.simulated_gpus:
        return ""
    gpus = seen.steps.get("gpus", {})
    names, driver, cuda = gpus.get("names") or [], gpus.get("driver"), gpus.get("cuda")
    if len(names) < job.gpus:
        tool = vendor_named(job.gpu_vendor).tool
        return f"{tool} shows {len(names)} of the {job.gpus} GPUs of this job in the environment."
    if result.gpus < job.gpus:
        return f"The framework sees {result.gpus} of the {job.gpus} GPUs of this job."
    environment = job.environment
    for what, have, need in (
        ("driver", driver, environment.min_driver),
        ("CUDA", cuda, environment.min_cuda),
    ):
        if need and have and _numbers(str(have)) < _numbers(need):
            return f"The environment needs {what} {need}, but this node has {have}."
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:4])
