"""What a session says of itself: NVML's numbers, the job's memory, and how the report travels.

There is no GPU here: pynvml is played by ``Nvml``, which answers what a test tells it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import machine
import pytest
from certipy import Certipy
from machine_clock import awake
from portal_session.measurements import telemetry as session_telemetry
from portal_session.measurements.gpus import programs
from portal_session.measurements.gpus.nvidia import NvmlReader
from portal_session.measurements.memory import job_memory
from portal_session.measurements.telemetry import Reporter, make_reporter
from test_session_package import (
    a_hub,
    a_session,
    installed,  # noqa: F401  a fixture
    session_environment,
)
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from portal.models.session.telemetry import TelemetryReport

GIB = 1024**3
JOB = "1234"


class NvmlError(Exception):
    pass


class Nvml:
    """pynvml, simulated. A value that is an exception is raised."""

    def __init__(self, *gpus: dict[str, Any], init: Exception | None = None) -> None:
        self.gpus = list(gpus)
        self.init = init
        self.starts = 0
        self.stops = 0

    def nvmlInit(self) -> None:
        if self.init:
            raise self.init
        self.starts += 1

    def nvmlShutdown(self) -> None:
        self.stops += 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:
        for gpu in self.gpus:
            for part in gpu.get("instances", ()):
                if part["uuid"] == uuid:
                    return part
        raise NvmlError("not found")

    def nvmlDeviceGetUtilizationRates(self, gpu: dict[str, Any]) -> Any:
        return SimpleNamespace(gpu=self._value(gpu, "utilization"), memory=0)

    def nvmlDeviceGetMemoryInfo(self, gpu: dict[str, Any]) -> Any:
        used = self._value(gpu, "used")
        return SimpleNamespace(used=used, total=gpu.get("total", 32 * GIB), free=0)

    def nvmlDeviceGetMigMode(self, gpu: dict[str, Any]) -> list[int]:
        mode = self._value(gpu, "mode")
        return [mode, mode]

    def nvmlDeviceGetMinorNumber(self, gpu: dict[str, Any]) -> int:
        return self._value(gpu, "minor")

    def nvmlDeviceGetUUID(self, gpu: dict[str, Any]) -> str:
        return self._value(gpu, "uuid")

    @staticmethod
    def _value(gpu: dict[str, Any], name: str) -> Any:
        value = gpu.get(name, NvmlError("not supported"))
        if isinstance(value, Exception):
            raise value
        return value


def a_gpu(number: int, **more: Any) -> dict[str, Any]:
    values = {"utilization": 10 * number, "used": number * GIB, "minor": number}
    return {**values, "uuid": f"GPU-{number}f-aa", **more}


def read(nvml: Nvml, visible: str | None = "0,1,2,3", **environ: str) -> list[dict[str, Any]]:
    if visible is not None:
        environ["CUDA_VISIBLE_DEVICES"] = visible
    gpus = NvmlReader(environ, nvml).read()
    # Whatever NVML says, the service's model takes it.
    TelemetryReport.model_validate_json(json.dumps({"job_id": JOB, "gpus": gpus}))
    return gpus


# -- GPUs -----------------------------------------------------------------------------------------


def test_a_gpu_as_nvml_describes_it() -> None:
    (gpu,) = read(Nvml(a_gpu(7, mode=0)), "0")
    assert gpu == {
        "index": 0,
        "minor": 7,
        "uuid": "GPU-7f-aa",
        "utilization": 70,
        "memory_used": 7 * 1024,
        "memory_total": 32 * 1024,
        "mig": False,
    }


def test_what_the_driver_reserves_is_not_used() -> None:
    """As nvidia-smi shows it; a driver that is older than the library counts it as used."""

    class Newer(Nvml):
        nvmlMemory_v2 = 33554472

        def nvmlDeviceGetMemoryInfo(self, gpu: dict[str, Any], version: int = 0) -> Any:
            memory = super().nvmlDeviceGetMemoryInfo(gpu)
            if version == self.nvmlMemory_v2 and gpu["newer"]:
                memory.used -= GIB // 2
            elif version:
                raise NvmlError("function not found")
            return memory

    for newer, used in ((True, 3584), (False, 4096)):
        (gpu,) = read(Newer(a_gpu(4, newer=newer)), "0")
        assert (gpu["memory_used"], gpu["memory_total"]) == (used, 32 * 1024)


def test_what_nvml_does_not_say_is_none() -> None:
    (gpu,) = read(Nvml({}), "0")
    assert gpu == {
        "index": 0,
        "minor": None,
        "uuid": "",
        "utilization": None,
        "memory_used": None,
        "memory_total": None,
        "mig": False,
    }


@pytest.mark.parametrize(
    "odd",
    [
        {"utilization": 4294967295},
        {"utilization": -1},
        {"used": 40 * GIB},
        {"total": 1 << 63},
        {"minor": 4294967295},
        {"uuid": "<b>"},
        {"uuid": b"GPU-1f-aa"},
    ],
)
def test_an_odd_number_spoils_nothing_but_itself(odd: dict[str, Any]) -> None:
    (gpu,) = read(Nvml(a_gpu(1, **odd)), "0")
    name = {"used": "memory_used", "total": "memory_total"}.get(*[*odd] * 2)
    assert gpu[name] in (None, "", "GPU-1f-aa")
    assert sum(value in (None, "") for value in gpu.values()) <= 1


FOUR = [a_gpu(n) for n in range(4)]


@pytest.mark.parametrize(
    ("visible", "minors"),
    [
        ("0,1,2,3", [0, 1, 2, 3]),
        ("3,1", [1, 3]),
        ("1,1", [1]),
        ("2,4", [2]),
        ("GPU-2f,GPU-0f-aa", [0, 2]),
        ("NoDevFiles", []),
        ("-1", []),
        ("", []),
    ],
)
def test_only_the_gpus_that_the_job_may_use(visible: str, minors: list[int]) -> None:
    found = read(Nvml(*FOUR), visible)
    assert [gpu["minor"] for gpu in found] == minors
    assert [gpu["index"] for gpu in found] == list(range(len(minors)))


@pytest.mark.parametrize(("on_node", "count"), [("4", 4), ("2", 0), (None, 0)])
def test_without_the_variable_nvml_counts_where_it_shows_the_jobs_gpus_alone(
    on_node: str | None, count: int
) -> None:
    environ = {} if on_node is None else {"SLURM_GPUS_ON_NODE": on_node}
    assert len(read(Nvml(*FOUR), None, **environ)) == count


def test_mig_has_no_utilization() -> None:
    parts = [
        {"uuid": f"MIG-{n}", "used": n * GIB, "total": 20 * GIB, "utilization": 0} for n in (1, 2)
    ]
    nvml = Nvml(a_gpu(0, mode=1, instances=parts), a_gpu(1, mode=0))
    assert [(gpu["utilization"], gpu["mig"]) for gpu in read(nvml, "0,1")] == [
        (None, True),
        (10, False),
    ]
    found = read(nvml, "MIG-2,MIG-1,MIG-none")
    assert [(gpu["uuid"], gpu["memory_used"], gpu["utilization"]) for gpu in found] == [
        ("MIG-2", 2048, None),
        ("MIG-1", 1024, None),
    ]
    assert all(gpu["mig"] and gpu["minor"] is None for gpu in found)


def test_nvml_is_started_once_and_anew_after_a_failure() -> None:
    nvml = Nvml(*FOUR)
    gpus = NvmlReader({"CUDA_VISIBLE_DEVICES": "0"}, nvml)
    assert len(gpus.read()) == len(gpus.read()) == 1 and nvml.starts == 1
    working, nvml.nvmlDeviceGetCount = nvml.nvmlDeviceGetCount, lambda: 1 / 0
    assert gpus.read() == [] and nvml.stops == 1
    nvml.nvmlDeviceGetCount = working
    assert len(gpus.read()) == 1 and nvml.starts == 2


def test_a_machine_without_a_driver_or_without_pynvml_has_no_gpus() -> None:
    broken = Nvml(init=NvmlError("no driver"))
    assert NvmlReader({"CUDA_VISIBLE_DEVICES": "0"}, broken).read() == []
    code = (
        "import sys; sys.modules['pynvml'] = None; "
        "from portal_session.measurements.gpus import gpu_reader; "
        "print(gpu_reader({'CUDA_VISIBLE_DEVICES': '0'}).read())"
    )
    kernels = Path(session_telemetry.__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=kernels, capture_output=True, text=True, check=True
    )
    assert said.stdout == "[]\n"


def test_the_real_pynvml_has_what_is_asked_of_it() -> None:
    pynvml = pytest.importorskip("pynvml")
    asked = [name for name in vars(Nvml) if name.startswith("nvml")]
    assert asked and all(callable(getattr(pynvml, name)) for name in asked)


# -- programs of vendors ---------------------------------------------------------------------------


def a_program(folder: Path, text: str) -> dict[str, str]:
    """The variables of a session in which ``amd-smi`` is this shell script."""
    program = folder / "amd-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_a_program_s_answer_counts_whatever_its_exit_status(tmp_path: Path) -> None:
    environ = a_program(tmp_path, 'echo "[$*]"; echo noise >&2; exit 3')
    assert programs.program_output(["amd-smi", "list", "--json"], environ) == "[list --json]\n"
    assert programs.program_output(["no-such-program"], environ) == ""


def test_a_program_of_the_person_s_own_gets_no_secrets(tmp_path: Path) -> None:
    environ = a_program(tmp_path, "env")
    secrets = {"JUPYTERHUB_API_TOKEN": "secret", "PORTAL_X": "secret", "APPTAINERENV_X": "secret"}
    said = programs.program_output(["amd-smi"], {**environ, **secrets, "SLURM_JOB_GPUS": "1"})
    assert "secret" not in said and "SLURM_JOB_GPUS=1" in said


def test_a_program_that_hangs_is_given_up_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "PATIENCE", 0.5)
    environ = a_program(tmp_path, 'echo "[]"; sleep 30 & wait')
    began = time.monotonic()
    assert programs.program_output(["amd-smi"], environ) == ""
    assert time.monotonic() - began < 10


def test_a_program_that_never_stops_talking_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LARGEST", 100_000)
    environ = a_program(tmp_path, "exec yes")
    assert programs.program_output(["amd-smi"], environ) == ""


def test_a_program_that_cannot_run_says_nothing(tmp_path: Path) -> None:
    environ = a_program(tmp_path, "")
    (tmp_path / "amd-smi").write_bytes(b"\x7fELF no program")
    assert programs.program_output(["amd-smi"], environ) == ""


# -- memory ---------------------------------------------------------------------------------------


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "proc").mkdir(exist_ok=True)
    return root


V2 = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_1234"
V1 = "sys/fs/cgroup/memory/slurm/uid_1000/job_1234"
IN_V2 = "0::/system.slice/slurmstepd.scope/job_1234/step_batch/user/task_0\n"
IN_V1 = "5:cpuset:/slurm/x\n4:memory:/slurm/uid_1000/job_1234/step_batch/task_0\n0::/\n"


FILES_V2 = {
    "proc/self/cgroup": IN_V2,
    f"{V2}/memory.current": "3221225472\n",
    f"{V2}/memory.max": "8589934592\n",
    f"{V2}/memory.stat": "anon 5\ninactive_file 1073741824\nactive_file 7\n",
    f"{V2}/step_batch/memory.current": "1\n",
}
FILES_V1 = {
    "proc/self/cgroup": IN_V1,
    f"{V1}/memory.usage_in_bytes": "3221225472\n",
    f"{V1}/memory.limit_in_bytes": "4294967296\n",
    f"{V1}/memory.stat": "inactive_file 9\ntotal_inactive_file 1073741824\n",
}


@pytest.mark.parametrize(
    ("files", "most", "limit", "none"),
    [
        (FILES_V2, 8192, f"{V2}/memory.max", "max\n"),
        (FILES_V1, 4096, f"{V1}/memory.limit_in_bytes", "9223372036854771712\n"),
    ],
    ids=["version 2", "version 1"],
)
def test_memory_of_the_jobs_cgroup(
    tmp_path: Path, files: dict[str, str], most: int, limit: str, none: str
) -> None:
    assert job_memory(JOB, tree(tmp_path, files)) == (2048, most)
    (tmp_path / limit).write_text(none)
    assert job_memory(JOB, tmp_path) == (2048, None)


@pytest.mark.parametrize(
    "cgroup", ["", "0::/system.slice/slurmd.service\n", "0::/job_12345/x\n", "0::/../job_1234\n"]
)
def test_another_cgroup_is_not_the_jobs(tmp_path: Path, cgroup: str) -> None:
    used = "3221225472\n"
    files = {"sys/fs/cgroup/memory.current": used, "sys/fs/job_1234/memory.current": used}
    files["proc/self/cgroup"] = cgroup
    assert job_memory(JOB, tree(tmp_path, files)) == (None, None)


def test_without_a_cgroup_the_jobs_processes_are_counted() -> None:
    hog = "import sys; block = bytearray(b'x') * (100 << 20); print('ready', flush=True); input()"
    job = f"9{os.getpid()}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", hog],
            env={"SLURM_JOB_ID": job, "NAME": "x"} if mine else {"SLURM_JOB_ID": job + "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for mine in (True, True, False)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == b"ready\n"
        used, limit = job_memory(job)
        assert 200 <= used <= 280 and limit is None
        started = time.process_time()
        job_memory(job)
        assert time.process_time() - started < 0.5
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert job_memory(job) == (None, None)


# -- the report -----------------------------------------------------------------------------------


class Service:
    """The portal's route for reports, recording what comes."""

    def __init__(self) -> None:
        self.reports: list[TelemetryReport] = []
        self.tokens: list[str] = []
        self.times: list[float] = []
        self.answers: list[int | str] = []  # status codes or a redirect's target; then 204
        self.retry_after = ""
        self.elsewhere = 0
        self.url = ""

    async def heard(self, count: int = 1, patience: float = 30) -> None:
        end = time.monotonic() + machine.patience(patience)
        while len(self.times) < count:
            assert time.monotonic() < end, f"{len(self.times)} reports came"
            await asyncio.sleep(0.02)


class Route(RequestHandler):
    async def post(self) -> None:
        service: Service = self.application.settings["service"]
        service.times.append(time.monotonic())
        service.tokens.append(self.request.headers["Authorization"])
        service.reports.append(TelemetryReport.model_validate_json(self.request.body))
        answer = service.answers.pop(0) if service.answers else 204
        if isinstance(answer, str):
            self.redirect(answer, status=302)
            return
        if answer == 0:
            await asyncio.sleep(3600)
        if service.retry_after:
            self.set_header("Retry-After", service.retry_after)
        self.set_status(answer)


class Elsewhere(RequestHandler):
    def post(self) -> None:
        self.application.settings["service"].elsewhere += 1

    get = post


@asynccontextmanager
async def a_service(
    tls: ssl.SSLContext | None = None, listening: socket.socket | None = None
) -> AsyncIterator[Service]:
    service = Service()
    web = Application(
        [("/services/portal/api/v1/telemetry", Route), ("/elsewhere", Elsewhere)], service=service
    )
    server = HTTPServer(web, ssl_options=tls)
    listening = listening or bind_unused_port()[0]
    port = listening.getsockname()[1]
    server.add_socket(listening)
    service.url = f"http{'s' if tls else ''}://localhost:{port}/services/portal/"
    try:
        yield service
    finally:
        server.stop()


@asynccontextmanager
async def reporting(
    service: Service, monkeypatch: pytest.MonkeyPatch, interval: float = 0.05, **environ: str
) -> AsyncIterator[Reporter]:
    monkeypatch.setattr(session_telemetry, "SHORTEST", 0.01)
    values = {
        "PORTAL_SERVICE_URL": service.url,
        "PORTAL_TELEMETRY_INTERVAL": str(interval),
        "JUPYTERHUB_API_TOKEN": "secret-token",
        "SLURM_JOB_ID": JOB,
        **environ,
    }
    reporter = make_reporter(values, logging.getLogger("session"))
    assert reporter is not None
    reporter._gpus = NvmlReader({"CUDA_VISIBLE_DEVICES": "1,2"}, Nvml(*FOUR))
    reporter.start()
    try:
        yield reporter
    finally:
        reporter.stop()
        await asyncio.to_thread(reporter.join, 20)
        assert not reporter.is_alive()


async def test_a_session_reports_its_gpus_and_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "session")
    monkeypatch.setattr(session_telemetry, "job_memory", lambda job: (100, 200))
    # A proxy for the way out is not for the portal.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with a_service() as service, reporting(service, monkeypatch):
        await service.heard(3)
    report = service.reports[0]
    assert report.job_id == JOB and (report.memory_used, report.memory_limit) == (100, 200)
    assert [(gpu.minor, gpu.utilization) for gpu in report.gpus] == [(1, 10), (2, 20)]
    assert set(service.tokens) == {"token secret-token"}
    said = [record.getMessage() for record in caplog.records if record.name == "session"]
    assert len(said) == 1 and "is reported to the portal" in said[0]


async def test_refusals_are_said_once_and_make_it_slower(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "session")
    async with a_service() as service:
        service.answers = [403] * 5
        async with reporting(service, monkeypatch):
            await service.heard(8)
    gaps = [b - a for a, b in zip(service.times, service.times[1:], strict=False)]
    assert gaps[0] >= 0.1 and gaps[1] >= 0.2 and gaps[2] >= 0.4 and gaps[3] >= 0.8
    assert gaps[4] >= 1.6 and gaps[6] < 1.5, "quick again once it is taken"
    said = [record.getMessage() for record in caplog.records if record.name == "session"]
    assert len(said) == 2 and "answered with 403" in said[0] and "is reported" in said[1]
    assert not any("secret-token" in line for line in said)


async def test_the_longest_wait_and_what_the_service_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_telemetry, "LONGEST_WAIT", 0.2)
    async with a_service() as service:
        service.answers = [503] * 6
        async with reporting(service, monkeypatch):
            await service.heard(7)
    gaps = [b - a for a, b in zip(service.times, service.times[1:], strict=False)]
    assert max(gaps) < 3.0  # the last would be 3.2
    monkeypatch.setattr(session_telemetry, "LONGEST_WAIT", 300)
    async with a_service() as service:
        service.answers, service.retry_after = [429], "1"
        async with reporting(service, monkeypatch):
            await service.heard(2)
    assert service.times[1] - service.times[0] >= 1


async def test_the_token_follows_no_redirect(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_service() as service:
        service.answers = [service.url.replace("services/portal/", "elsewhere")]
        async with reporting(service, monkeypatch):
            await service.heard(2)
    assert service.elsewhere == 0
    assert "answered with 302" in caplog.text


async def test_a_service_that_is_away_comes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = socket.socket()
    place.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
    away = Service()
    away.url = f"http://127.0.0.1:{place.getsockname()[1]}/services/portal/"
    async with reporting(away, monkeypatch):
        end = time.monotonic() + machine.patience(20)
        while "could not be sent" not in caplog.text:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        place.listen()
        place.setblocking(False)
        async with a_service(listening=place) as service:
            await service.heard(2)


async def test_with_internal_ssl_and_without_a_known_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    maker = Certipy(store_dir=str(tmp_path / "tls"))
    ca = maker.create_ca("test-ca")["files"]["cert"]
    pairs = {
        name: maker.create_signed_pair(name, "test-ca", alt_names=["DNS:localhost"])["files"]
        for name in ("service", "session")
    }
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    tls.load_cert_chain(pairs["service"]["cert"], pairs["service"]["key"])
    tls.verify_mode = ssl.CERT_REQUIRED
    own = {
        "JUPYTERHUB_SSL_KEYFILE": pairs["session"]["key"],
        "JUPYTERHUB_SSL_CERTFILE": pairs["session"]["cert"],
        "JUPYTERHUB_SSL_CLIENT_CA": ca,
    }
    async with a_service(tls) as service:
        async with reporting(service, monkeypatch, **own):
            await service.heard()
        service.times.clear()
        async with reporting(service, monkeypatch):
            end = time.monotonic() + machine.patience(20)
            while "CERTIFICATE_VERIFY_FAILED" not in caplog.text:
                assert time.monotonic() < end, caplog.text
                await asyncio.sleep(0.05)
        assert service.times == []


@pytest.mark.parametrize(
    "missing",
    [
        {"PORTAL_SERVICE_URL": ""},
        {"PORTAL_SERVICE_URL": "file:///etc/passwd"},
        {"PORTAL_TELEMETRY_INTERVAL": ""},
        {"PORTAL_TELEMETRY_INTERVAL": "0"},
        {"PORTAL_TELEMETRY_INTERVAL": "nan"},
        {"PORTAL_TELEMETRY_INTERVAL": "inf"},
        {"JUPYTERHUB_API_TOKEN": ""},
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "1; rm"},
    ],
)
def test_a_session_that_lacks_something_does_not_report(missing: dict[str, str]) -> None:
    whole = {
        "PORTAL_SERVICE_URL": "http://127.0.0.1:1/services/portal/",
        "PORTAL_TELEMETRY_INTERVAL": "30",
        "JUPYTERHUB_API_TOKEN": "secret-token",
        "SLURM_JOB_ID": JOB,
    }
    assert make_reporter(whole, logging.getLogger()) is not None
    assert make_reporter({**whole, **missing}, logging.getLogger()) is None


# -- in a real server -----------------------------------------------------------------------------


async def test_a_real_server_reports_and_a_service_that_hangs_does_not_keep_it(
    installed: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    async with a_hub([]) as (_, api), a_service() as service:
        service.answers = [204, 0]
        environment = session_environment(
            tmp_path,
            api,
            PORTAL_SERVICE_URL=service.url,
            PORTAL_TELEMETRY_INTERVAL="2",
            SLURM_JOB_ID=JOB,
        )
        log = tmp_path / "log"
        with a_session(installed, environment, log) as process:
            await service.heard(2, patience=60)
            assert service.reports[0].job_id == JOB
            assert service.reports[0].memory_used > 10, "the server's own memory at least"
            process.send_signal(signal.SIGTERM)  # while the second report hangs
            started = awake()
            assert await asyncio.to_thread(process.wait, 30) == 0, log.read_text()
            assert awake() - started < 10
        text = log.read_text()
        assert "is reported to the portal every 2 seconds" in text
        assert "Traceback" not in text and "pending" not in text, text
