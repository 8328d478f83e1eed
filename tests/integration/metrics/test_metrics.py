"""Metrics of the service and the Hub: their names, their labels, and what a scrape costs."""

from __future__ import annotations

import datetime
import runpy
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkout import ROOT
from machine import patience
from monitored_site import certificate, session
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from session_endpoints import parts_on
from traitlets.config import Config

from portal.catalog import EnvironmentCatalog
from portal.errors import SlurmRefused, SlurmUnavailable
from portal.handlers.cluster.metrics import Metrics
from portal.metrics.certificate import expiry_of
from portal.models.session.session import SessionState
from portal.slurm import SlurmRunner
from portal.store import Store
from portal.telemetry import Telemetry
from portal.work.endpoint.gateway import GatewayState
from portal.work.endpoint.metrics import EndpointMetrics
from spawners import metrics as of_hub
from spawners.lifecycle.session_history import SessionHistory

CHOSEN = {"user": "mallory", "environment": "their-environment", "server": "their-server"}


@pytest.fixture
async def metrics(store: Store, tmp_path: Path) -> Metrics:
    (tmp_path / "files").mkdir()
    parts = parts_on(
        store,
        catalog=EnvironmentCatalog(directory=str(tmp_path / "files")),
        cluster=SimpleNamespace(runner=SlurmRunner(bin_dir=str(tmp_path / "no-slurm"))),
        dashboard=SimpleNamespace(view=None),
        telemetry=Telemetry(),
    )
    return Metrics(parts, Config())


async def text_of(metrics: Metrics) -> str:
    body, _ = await metrics.exposition("text/plain")
    return body.decode()


def value(text: str, name: str, **labels: str) -> float:
    """The value of one sample."""
    (found,) = {
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    }
    return found


async def test_a_scrape_of_a_thousand_sessions_is_quick_and_asks_slurm_nothing(
    metrics: Metrics, store: Store
) -> None:
    states = [SessionState.PENDING, SessionState.STARTING, SessionState.RUNNING]
    records = [
        session(f"s{index}", state=states[index % 3], **{**CHOSEN, "user": f"mallory{index % 50}"})
        for index in range(1000)
    ]
    await store.sessions.save(*records)
    for route in range(60):
        for status in (200, 404, 500):
            metrics.count(handler(f"route-{route}", status))
    times = []
    for _ in range(5):
        metrics._figures._answer.invalidate()
        began = time.perf_counter()
        text = await text_of(metrics)
        times.append(time.perf_counter() - began)
    assert value(text, "portal_works", kind="jupyterlab", state="running") == 333
    assert value(text, "portal_works", kind="run", state="pending") == 0
    assert value(text, "portal_users_with_works") == 50
    assert min(times) < patience(0.05), times
    assert not metrics._collector._parts.cluster.runner.runs
    # The size does not grow with what users do, and nothing that they name is in it.
    assert len(text.splitlines()) < 4000
    for chosen in CHOSEN.values():
        assert chosen not in text


def handler(route: str, status: int) -> Any:
    made = type(route, (), {"SUPPORTED_METHODS": ("GET",)})()
    made.request = SimpleNamespace(method="GET", request_time=lambda: 0.01)
    made.get_status = lambda: status
    return made


async def test_promtool_finds_no_fault_in_names_and_types(metrics: Metrics, store: Store) -> None:
    collector = of_hub.HubCollector(SlurmRunner(), store)
    registry = CollectorRegistry()
    for one in (collector, of_hub.LAUNCHES, of_hub.PHASES):
        registry.register(one)
    for text in (await text_of(metrics), generate_latest(registry).decode()):
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


async def test_a_database_that_is_away_leaves_out_what_is_not_known(
    metrics: Metrics, store: Store, tmp_path: Path
) -> None:
    metrics._figures._answer.patience = None  # a busy machine answers late
    assert value(await text_of(metrics), "portal_queue_oldest_age_seconds") == 0
    path = store.database.address.path
    assert path is not None
    path.rename(tmp_path / "elsewhere")
    metrics._figures._answer.invalidate()
    failures = store.database.failures
    text = await text_of(metrics)
    assert value(text, "portal_database_up") == 0
    assert value(text, "portal_database_query_failures_total") > failures
    for name in ("portal_works", "portal_queue_oldest_age_seconds", "portal_backup_timestamp"):
        assert f"\n{name}" not in text
    assert value(text, "portal_disk_free_bytes", folder="database") > 0


def test_launches_are_counted_once_by_their_outcome() -> None:
    def history(**more: Any) -> SessionHistory:
        recorder = SimpleNamespace(note=lambda _: None, close=lambda _: None, has=lambda _: False)
        made = SessionHistory(SimpleNamespace(shared=SimpleNamespace(recorder=recorder)))  # type: ignore[arg-type]
        made.record = session("one", work="counted", **more)
        return made

    registry = CollectorRegistry()
    registry.register(of_hub.LAUNCHES)
    registry.register(of_hub.PHASES)

    def counted() -> dict[str, float]:
        return {
            outcome: registry.get_sample_value(
                "portal_launches_total", {"kind": "counted", "outcome": outcome}
            )
            or 0
            for outcome in of_hub.OUTCOMES
        }

    now = time.time()
    ready = history(submitted_at=now - 30, started_at=now - 10)
    ready.ready(None)
    ready.ready(None)  # a server that posts its port again
    ready.left()
    assert counted() == {"ready": 1, "refused": 0, "failed": 0, "stopped": 0}
    assert registry.get_sample_value("portal_launch_phase_seconds_sum", {"phase": "queue"}) >= 20
    failed = history()
    failed.stopping(SimpleNamespace(by="", code="start_failed", message="", log=""))  # type: ignore[arg-type]
    failed.left()
    failed.left()
    stopped = history()
    stopped.stopping(SimpleNamespace(by="ada", code="stopped", message="", log=""))  # type: ignore[arg-type]
    stopped.left()
    history(state=SessionState.ENDED, ending_code="walltime").left()  # its end was counted
    assert counted() == {"ready": 1, "refused": 0, "failed": 1, "stopped": 1}
    of_hub.count_refusal("counted", SlurmRefused("Slurm refused: a limit of your account."))
    of_hub.count_refusal("counted", SlurmUnavailable("Slurm does not answer."))
    assert counted() == {"ready": 1, "refused": 1, "failed": 2, "stopped": 1}


async def test_counters_of_models_that_come_and_go_never_fall(store: Store) -> None:
    states: list[GatewayState | None] = []

    async def state() -> GatewayState | None:
        return states.pop(0)

    gateway: Any = SimpleNamespace(offered=True, state=state)
    metrics = EndpointMetrics(store, gateway)

    async def collected() -> dict[str, float]:
        return {
            metric.name: metric.samples[0].value
            async for metric in metrics.collect()
            if metric.samples
        }

    async def requests(began: float, **models: int) -> float:
        said = {name: {"requests": number, "tokens": 2 * number} for name, number in models.items()}
        states.append(GatewayState({"since": began, "models": said}))
        found = await collected()
        assert found["portal_gateway_up"] == 1
        assert found["portal_gateway_tokens"] == 2 * found["portal_gateway_requests"]
        return found["portal_gateway_requests"]

    assert await requests(1.0, a=5, b=7) == 12
    assert await requests(1.0, a=6) == 13  # b is gone
    assert await requests(1.0, a=6, b=2) == 15  # and begins anew
    assert await requests(1.0, a=6, b=1) == 16  # between two looks
    assert await requests(2.0, a=9) == 25  # as the whole gateway does
    states.append(None)
    away = await collected()
    assert away["portal_gateway_up"] == 0
    assert "portal_gateway_requests" not in away


def test_the_hubs_own_certificate_is_read_from_its_file(tmp_path: Path) -> None:
    config = Config()
    assert expiry_of(config) is None
    config.JupyterHub.ssl_cert = str(tmp_path / "hub.pem")
    assert expiry_of(config) is None  # it is not there
    whole = certificate(datetime.timedelta(days=30))
    (tmp_path / "hub.pem").write_bytes(whole[whole.index(b"-----BEGIN CERT") :])
    expiry = expiry_of(config)
    assert expiry is not None and abs(expiry - time.time() - 30 * 86400) < 60


def test_the_dashboards_are_those_that_their_program_writes() -> None:
    make = runpy.run_path(str(ROOT / "docs/dashboards.py"))
    files = {path.stem: path.read_text() for path in (ROOT / "deploy/grafana").glob("*.json")}
    assert files == {name: make["made"](name) for name in make["DASHBOARDS"]}
