"""GPU telemetry through a real Prometheus, which scrapes pages of the DCGM exporter."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from certipy import Certipy
from machine import patience
from machine_clock import awake
from real_prometheus import RealPrometheus
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from portal.errors import ConfigurationError
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Job, JobState, Node
from portal.models.cluster.gpu import GpuReading
from portal.telemetry import Telemetry

PAGES = Path(__file__).parent / "telemetry_pages"
OUTPUTS = Path(__file__).parents[2] / "amd_outputs"
GPUS = {"gpu01": 4, "gpu02": 4, "gpu03": 2, "gpu04": 4, "gpu05": 2, "gpu06": 1}
PATIENCE = patience(120.0)
MAX_AGE = 4  # seconds; Prometheus scrapes once a second here


def snapshot(*jobs: Job, **gpus: int) -> ClusterSnapshot:
    nodes = {
        name: Node(
            name=name,
            address=f"10.0.0.{number}",
            state="MIXED",
            gpus=(GpuPool(type="v100", count=count),),
        )
        for number, (name, count) in enumerate((gpus or GPUS).items())
    }
    return ClusterSnapshot(taken_at=time.time(), nodes=nodes, jobs={job.id: job for job in jobs})


class Exporters:
    """The exporters of all nodes: one little server; what each answers can be changed."""

    def __init__(self) -> None:
        self.pages = {path.stem: path.read_text() for path in PAGES.glob("*.txt")}
        self.scrapes = 0


class Page(RequestHandler):
    def get(self, node: str) -> None:
        exporters: Exporters = self.application.settings["exporters"]
        exporters.scrapes += 1
        if node not in exporters.pages:
            self.send_error(503)
            return
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(exporters.pages[node])


def scraping(exporters_port: int) -> dict[str, Any]:
    """Prometheus' configuration: it scrapes the exporters of all nodes once a second."""
    scrapes = [
        {
            "job_name": f"dcgm-{node}",
            "metrics_path": f"/{node}/metrics",
            "static_configs": [
                {
                    "targets": [f"127.0.0.1:{exporters_port}"],
                    "labels": {"instance": f"{node}:9400"},
                }
            ],
        }
        for node in GPUS
    ]
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}


@asynccontextmanager
async def serving(web: Application, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of ``web`` on loopback."""
    server = HTTPServer(web, ssl_options=tls)
    listening, port = bind_unused_port()
    server.add_socket(listening)
    try:
        yield port
    finally:
        server.stop()
        await server.close_all_connections()


@pytest.fixture(scope="module")
async def exporters() -> AsyncIterator[tuple[Exporters, int]]:
    exporters = Exporters()
    web = Application([(r"/(\w+)/metrics", Page)], exporters=exporters)
    async with serving(web) as port:
        yield exporters, port


@pytest.fixture(scope="module")
async def prometheus(
    exporters: tuple[Exporters, int], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealPrometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    running = RealPrometheus(tmp_path_factory.mktemp("prometheus"), scraping(exporters[1]))
    running.start()
    try:
        yield running
    finally:
        running.stop()


def telemetry(url: str, **settings: object) -> Telemetry:
    values = {"max_age": MAX_AGE, "interval": 0.0, "patience": 20.0, **settings}
    return Telemetry(source="prometheus", prometheus_url=url, **values)


async def until(
    telemetry: Telemetry, cluster: ClusterSnapshot, true: Callable[[dict], bool]
) -> dict[tuple[str, int], GpuReading]:
    """The readings once ``true`` says that they are as awaited."""
    end = time.monotonic() + PATIENCE
    while True:
        await telemetry.refresh(cluster)
        readings = telemetry.readings(cluster)
        if true(readings):
            return readings
        assert time.monotonic() < end, f"{telemetry.error!r} {readings}"
        await asyncio.sleep(0.2)


def figures(reading: GpuReading) -> tuple[float | None, int | None, int | None, bool]:
    return reading.utilization, reading.memory_used, reading.memory_total, reading.mig


def shown(found: dict[tuple[str, int], GpuReading], node: str, index: int) -> float | None:
    """The utilization of one GPU, None where nothing is known of it.

    A refresh asks several questions. Where Prometheus takes its first sample between two of them,
    the GPU has its time and its engine's activity already, and its percent at the next refresh.
    """
    return found[node, index].utilization if (node, index) in found else None


async def test_every_page_is_read_and_what_nobody_measured_is_unknown(
    prometheus: RealPrometheus,
) -> None:
    source, cluster = telemetry(prometheus.url), snapshot()
    found = await until(
        source, cluster, lambda found: {n for n, _ in found} >= set(GPUS) - {"gpu06"}
    )
    assert source.error == "" and not source.simulated
    assert source.taken_at == pytest.approx(time.time(), abs=10)
    assert {gpu: figures(one) for gpu, one in found.items()} == {
        ("gpu01", 0): (97, 29483, 32500, False),
        ("gpu01", 1): (42, 8390, 32500, False),
        ("gpu01", 2): (0, 336, 32500, False),
        ("gpu01", 3): (0, 7, 32500, False),
        ("gpu02", 0): (88, 31300, 32500, False),
        ("gpu02", 1): (13, 2500, 32500, False),
        ("gpu02", 2): (0, 7, 32500, False),
        ("gpu03", 0): (None, 12026, 39936, True),
        ("gpu03", 1): (64, 9536, 40536, False),
        ("gpu04", 0): (None, None, None, False),
        ("gpu04", 1): (72.1, 12500, None, False),
        ("gpu04", 2): (None, 12500, 32500, False),
        ("gpu04", 3): (None, None, None, False),
        ("gpu05", 0): (0, 5, 16130, False),
        ("gpu05", 1): (77, 15130, 16130, False),
    }
    one = found["gpu01", 3]
    assert one.source == "dcgm"
    assert one.uuid == "GPU-01e8f5ea-13cc-4d1a-b88f-2bcf5ae8b013"
    assert 0 <= time.time() - one.at <= MAX_AGE
    assert source.accountable(cluster) == source.readings(cluster)
    assert [source.busy(found["gpu01", index]) for index in range(4)] == [True, True, False, False]
    assert source.busy(found["gpu03", 0]) is None


async def test_what_prometheus_keeps_of_an_old_sample_is_not_shown(
    prometheus: RealPrometheus, exporters: tuple[Exporters, int]
) -> None:
    pages, _ = exporters[0].pages, exporters[1]
    cluster = snapshot()

    def page(age: float, age_of_memory: float | None = None) -> str:
        """A page whose samples carry their own time, so Prometheus keeps them for 5 minutes."""
        labels = 'gpu="0",UUID="GPU-06",device="nvidia0",Hostname="gpu06"'
        ages = {
            "DCGM_FI_DEV_GPU_UTIL": age,
            "DCGM_FI_DEV_FB_USED": age if age_of_memory is None else age_of_memory,
        }
        return "".join(
            f"{metric}{{{labels}}} 55 {int(1000 * (time.time() - seconds))}\n"
            for metric, seconds in ages.items()
        )

    pages["gpu06"] = page(100)
    try:
        # With patience for old samples it is there, so Prometheus has it.
        tolerant = telemetry(prometheus.url, max_age=200)
        found = await until(tolerant, cluster, lambda found: ("gpu06", 0) in found)
        assert time.time() - found["gpu06", 0].at == pytest.approx(100, abs=20)
        strict = telemetry(prometheus.url)
        found = await until(strict, cluster, lambda found: ("gpu01", 0) in found)
        assert ("gpu06", 0) not in found
        pages["gpu06"] = page(90, age_of_memory=0)
        found = await until(strict, cluster, lambda found: ("gpu06", 0) in found)
        assert figures(found["gpu06", 0]) == (None, 55, None, False)
        pages["gpu06"] = page(0)
        busy = lambda found: ("gpu06", 0) in found and found["gpu06", 0].utilization == 55  # noqa: E731
        await until(strict, cluster, busy)
    finally:
        pages.pop("gpu06", None)


async def test_amds_exporter_beside_dcgm(
    prometheus: RealPrometheus, exporters: tuple[Exporters, int]
) -> None:
    """An example of its page (tests/amd_outputs/README.md), not a recording."""
    pages, cluster = exporters[0].pages, snapshot()
    both = telemetry(prometheus.url, prometheus_exporters=["dcgm", "amd"])
    dcgm = telemetry(prometheus.url)
    pages["gpu06"] = (OUTPUTS / "device-metrics-exporter.txt").read_text()
    try:
        found = await until(both, cluster, lambda found: shown(found, "gpu06", 0) == 91)
        assert figures(found["gpu06", 0]) == (91, 150000, 196592, False)
        assert found["gpu06", 0].source == "amd" and found["gpu01", 0].source == "dcgm"
        assert ("gpu06", 1) not in found, "Slurm knows one GPU there"
        assert found["gpu06", 0].uuid == "a1ff74a1-0000-1000-80a1-0000000000a1"
        of_dcgm = lambda found: ("gpu01", 0) in found and ("gpu06", 0) not in found  # noqa: E731
        await until(dcgm, cluster, of_dcgm)
        assert dcgm.error == ""
        amd = telemetry(prometheus.url, prometheus_exporters=["amd"])
        await until(amd, cluster, lambda found: set(found) == {("gpu06", 0)})
    finally:
        pages.pop("gpu06", None)


async def test_an_exporter_that_is_away_makes_its_gpus_unknown_and_comes_back(
    prometheus: RealPrometheus, exporters: tuple[Exporters, int]
) -> None:
    source, cluster, pages = telemetry(prometheus.url), snapshot(), exporters[0].pages
    await until(source, cluster, lambda found: ("gpu01", 0) in found)
    page = pages.pop("gpu01")
    try:
        await until(
            source,
            cluster,
            lambda found: ("gpu01", 0) not in found and ("gpu02", 0) in found and not source.error,
        )
    finally:
        pages["gpu01"] = page.replace("} 97\n", "} 31\n")
    await until(source, cluster, lambda found: shown(found, "gpu01", 0) == 31)
    pages["gpu01"] = page


async def test_prometheus_stopped_and_started(prometheus: RealPrometheus) -> None:
    source, cluster = telemetry(prometheus.url, max_age=120), snapshot()
    await until(source, cluster, lambda found: ("gpu01", 0) in found)
    answered = source.taken_at
    prometheus.stop()
    try:
        await source.refresh(cluster)
        assert source.error == "Prometheus does not answer: Connection refused."
        assert ("gpu01", 0) in source.readings(cluster), "the last readings stay for a while"
        assert source.taken_at == answered
        source.max_age = MAX_AGE
        await until(source, cluster, lambda found: not found)
        assert source.accountable(cluster) == {}
    finally:
        prometheus.start()
    await until(source, cluster, lambda found: shown(found, "gpu01", 0) == 97)
    assert source.error == ""


async def test_a_reading_is_of_one_moment_however_slowly_prometheus_is_asked(
    prometheus: RealPrometheus, exporters: tuple[Exporters, int]
) -> None:
    pages, cluster = exporters[0].pages, snapshot()
    labels = '{gpu="0",UUID="GPU-06",device="nvidia0",Hostname="gpu06"}'

    async def change() -> None:
        """All metrics of a scrape say the same number, and each scrape another one."""
        number = 0
        while True:
            number = (number + 1) % 100
            figures = {"DEV_GPU_UTIL": number, "DEV_FB_USED": number, "DEV_FB_FREE": 100 - number}
            pages["gpu06"] = "".join(
                f"DCGM_FI_{name}{labels} {figure}\n" for name, figure in figures.items()
            )
            await asyncio.sleep(0.1)

    async def forward(handler: RequestHandler) -> None:
        await asyncio.sleep(0.6)  # two questions are not within one second, nor is one scrape
        body = handler.request.body
        asked = HTTPRequest(f"{prometheus.url}/api/v1/query", method="POST", body=body)
        handler.finish((await AsyncHTTPClient().fetch(asked)).body)

    changing = asyncio.create_task(change())
    try:
        async with serving(Application([(r"/(.*)", Odd)], answer=forward)) as port:
            source = telemetry(f"http://127.0.0.1:{port}")
            seen = set()
            for _ in range(5):
                found = await until(source, cluster, lambda found: ("gpu06", 0) in found)
                number = found["gpu06", 0].utilization
                assert figures(found["gpu06", 0]) == (number, number, 100, False)
                seen.add(number)
            assert len(seen) > 1
    finally:
        changing.cancel()
        pages.pop("gpu06", None)


async def test_a_reading_from_before_the_job_says_nothing_about_the_job(
    prometheus: RealPrometheus,
) -> None:
    held = {"gpu01": (0,)}
    running = {"state": JobState.RUNNING, "nodes": ("gpu01",), "gpus": 1, "gpu_indexes": held}
    before = snapshot(Job(id="1", start_time=time.time() - 3600, **running))
    after = snapshot(Job(id="2", start_time=time.time() + 3600, **running))
    source = telemetry(prometheus.url)
    assert ("gpu01", 0) in await until(source, before, lambda found: ("gpu01", 0) in found)
    assert ("gpu01", 0) not in source.readings(after)
    assert ("gpu01", 0) not in source.accountable(after)
    assert ("gpu01", 1) in source.readings(after)


async def test_where_slurm_counts_mig_instances_indexes_are_not_guessed(
    prometheus: RealPrometheus,
) -> None:
    cluster = snapshot(gpu01=4, gpu03=3)  # two instances and a whole GPU: not DCGM's numbers
    found = await until(telemetry(prometheus.url), cluster, lambda found: ("gpu01", 0) in found)
    assert {node for node, _ in found} == {"gpu01"}


async def test_another_label_can_name_node_and_index(prometheus: RealPrometheus) -> None:
    source = telemetry(
        prometheus.url, prometheus_node_label="instance", prometheus_index_label="device"
    )
    found = await until(source, snapshot(), lambda found: ("gpu05", 1) in found)
    assert found["gpu05", 1].utilization == 77


async def test_a_prometheus_without_this_cluster_says_so(prometheus: RealPrometheus) -> None:
    source = telemetry(prometheus.url)
    await source.refresh(snapshot(other01=4))
    assert source.error.startswith("Prometheus has no readings of these nodes' GPUs")


class Odd(RequestHandler):
    """A server that is no Prometheus; what it does is in the settings."""

    async def post(self, path: str) -> None:
        await self.application.settings["answer"](self)


def vector(*rows: object) -> dict:
    return {"status": "success", "data": {"resultType": "vector", "result": list(rows)}}


async def redirect(handler: RequestHandler) -> None:
    handler.redirect("http://127.0.0.1:1/elsewhere", status=307)


def answers(body: object, status: int = 200) -> Callable[[RequestHandler], Awaitable[None]]:
    async def answer(handler: RequestHandler) -> None:
        handler.set_status(status)
        handler.finish(body)

    return answer


ODD = {
    "not JSON": (answers("<html>hello"), "be parsed"),
    "not UTF-8": (answers(b'{"status": "\xff\xfe"}'), "be parsed"),
    "deep": (answers("[" * 100_000), "be parsed"),
    "a list": (answers("[]"), "be parsed"),
    "no vector": (
        answers({"status": "success", "data": {"resultType": "matrix"}}),
        "be parsed",
    ),
    "an odd sample": (answers(vector({"metric": {}, "value": "x"})), "be parsed"),
    "labels that are none": (
        answers(vector({"metric": [], "value": [1, "1"]})),
        "cannot be parsed",
    ),
    "a value that is none": (
        answers(vector({"metric": {}, "value": [1, "x"]})),
        "cannot be parsed",
    ),
    "nothing": (answers(vector()), "has no readings of these nodes' GPUs"),
    "an error": (answers({"status": "error", "error": "secret"}, 500), "with an error (500)"),
    "bad request": (answers({"status": "error", "error": "parse"}, 400), "with an error (400)"),
    "no entry": (answers("", 401), "rejects the portal's query (401)"),
    "a redirect": (redirect, "with a redirect (307)"),
}


@pytest.mark.parametrize("name", ODD)
async def test_whatever_it_answers_it_is_a_sentence(name: str) -> None:
    answer, words = ODD[name]
    async with serving(Application([(r"/(.*)", Odd)], answer=answer)) as port:
        source = telemetry(f"http://127.0.0.1:{port}")
        await source.refresh(snapshot())
        assert words in source.error and str(port) not in source.error
        assert source.error.endswith(".") and source.readings(snapshot()) == {}


async def test_impossible_values_and_hostile_labels_are_unknown() -> None:
    async def answer(handler: RequestHandler) -> None:
        asked = re.findall(r'"portal_part", "([^"]+)"', handler.get_body_argument("query"))
        parts = {one: str(time.time()) if one.startswith("time") else "1e9" for one in asked}
        labels = [
            {"Hostname": "gpu01", "gpu": "0", "UUID": "<script>alert(1)</script>"},
            {"Hostname": "gpu01", "gpu": "99"},
            {"Hostname": "gpu01", "gpu": "-1"},
            {"Hostname": "gpu01", "gpu": "\u0661"},
            {"Hostname": "../../etc", "gpu": "0"},
            {"Hostname": "nobody", "gpu": "0"},
            {},
        ]
        rows = [
            {"metric": {**one, "portal_part": part}, "value": [time.time(), value]}
            for part, value in parts.items()
            for one in labels
        ]
        handler.finish(vector(*rows))

    async with serving(Application([(r"/(.*)", Odd)], answer=answer)) as port:
        source = telemetry(f"http://127.0.0.1:{port}/prefix/")
        await source.refresh(snapshot())
        (reading,) = source.readings(snapshot()).values()
        assert figures(reading) == (None, None, None, False) and reading.uuid == ""


async def test_nobody_waits_for_a_slow_prometheus_and_all_share_one_question() -> None:
    asked = 0
    go = asyncio.Event()

    async def answer(handler: RequestHandler) -> None:
        nonlocal asked
        asked += 1
        await go.wait()
        handler.finish(vector())

    async with serving(Application([(r"/(.*)", Odd)], answer=answer)) as port:
        source = telemetry(f"http://127.0.0.1:{port}", patience=0.1, prometheus_timeout=5.0)
        started = awake()
        await asyncio.gather(*(source.refresh(snapshot()) for _ in range(50)))
        assert awake() - started < 4
        end = time.monotonic() + patience(60)
        while not source.error:
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
        assert source.error == "Prometheus has not answered within 5 s."
        assert asked == 1
        go.set()


async def test_it_is_not_asked_more_often_than_the_interval() -> None:
    asked = 0

    async def answer(handler: RequestHandler) -> None:
        nonlocal asked
        asked += 1
        handler.finish(vector())

    async with serving(Application([(r"/(.*)", Odd)], answer=answer)) as port:
        source = telemetry(f"http://127.0.0.1:{port}", interval=60.0)
        for _ in range(5):
            await source.refresh(snapshot())
        assert asked == 1


async def test_the_token_is_read_anew_and_the_certificate_is_checked(tmp_path: Path) -> None:
    authority = Certipy(store_dir=str(tmp_path / "ca"))
    ca = authority.create_ca("ca")
    pair = authority.create_signed_pair("here", "ca", alt_names=["DNS:localhost"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair["files"]["cert"], pair["files"]["key"])
    tokens: list[str] = []

    async def answer(handler: RequestHandler) -> None:
        tokens.append(handler.request.headers.get("Authorization", ""))
        handler.finish(vector())

    token = tmp_path / "token"
    token.write_text("first\n")
    async with serving(Application([(r"/(.*)", Odd)], answer=answer), tls) as port:
        url = f"https://localhost:{port}"
        files = {"prometheus_token_file": str(token), "prometheus_ca_file": ca["files"]["cert"]}
        source = telemetry(url, **files)
        await source.refresh(snapshot())
        assert set(tokens) == {"Bearer first"}
        token.write_text("second")
        await source.refresh(snapshot())
        assert tokens[-1] == "Bearer second"
        token.unlink()
        await source.refresh(snapshot())
        assert "token file or CA file cannot be read" in source.error
        assert str(tmp_path) not in source.error
        tokens.clear()
        stranger = telemetry(url)
        await stranger.refresh(snapshot())
        assert "certificate is not accepted" in stranger.error and tokens == []


@pytest.mark.parametrize(
    "settings",
    [
        {"prometheus_url": ""},
        {"prometheus_url": "prometheus:9090"},
        {"prometheus_url": "http://prometheus:port"},
        {"prometheus_url": "ftp://prometheus"},
        {"prometheus_url": "http://prometheus", "prometheus_node_label": "a) or vector(1"},
    ],
)
async def test_settings_that_cannot_be_are_refused_at_once(settings: dict) -> None:
    with pytest.raises(ConfigurationError, match=r"c\.Telemetry\.prometheus_"):
        Telemetry(source="prometheus", **settings)
