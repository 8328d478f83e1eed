"""The trace of a launch, as a collector on loopback gets it: OTLP over HTTP, really decoded."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ROOT = Path(__file__).resolve().parents[3]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LAUNCH = """
import sys, time
from portal.logs import request, tracing
tracing.prepared()
began = time.monotonic()
request.begin_request("browser-12345678", sys.argv[1])
trace = tracing.LaunchTrace(user="ada") if tracing.WANTED else None
for name in ("admission", "sbatch", "queued", "queued", "starting", "starting") if trace else ():
    trace.step(name)
    time.sleep(0.002)
if trace:
    trace.note(job_id="7")
    if sys.argv[2]:
        trace.end(sys.argv[2])
    trace.end()
print(time.monotonic() - began)
print(any(name.startswith("opentelemetry") for name in sys.modules))
"""


@pytest.fixture
def collector() -> Iterator[Any]:
    """Yield a collector; ``got`` is what came, decoded."""
    got: list[ExportTraceServiceRequest] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/x-protobuf"
            assert self.path == "/v1/traces"
            got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.got = got  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def launch(endpoint: str, parent: str = "", error: str = "") -> tuple[float, bool, float]:
    """Launch in a process of its own; return the seconds that the steps took, whether OpenTelemetry
    was imported, and the seconds of the whole process after its imports."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    env |= {"PYTHONPATH": str(ROOT)}
    if endpoint:
        env["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, parent, error],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    seconds, imported = done.stdout.split()
    return float(seconds), imported == "True", time.monotonic() - began


def spans(collector: Any) -> list[Any]:
    found = [
        span
        for request in collector.got
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    return sorted(found, key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))


def test_a_launch_is_one_trace_with_its_steps_in_order(collector: Any) -> None:
    url = f"http://127.0.0.1:{collector.server_port}"
    _, imported, _ = launch(url, f"00-{TRACE}-{PARENT}-01")
    whole, *steps = spans(collector)
    assert imported and whole.name == "launch"
    assert [span.name for span in steps] == ["form", "admission", "sbatch", "queued", "starting"]
    assert {span.trace_id.hex() for span in (whole, *steps)} == {TRACE}
    assert whole.parent_span_id.hex() == PARENT
    assert {span.parent_span_id for span in steps} == {whole.span_id}
    for before, after in itertools.pairwise(steps):
        assert before.end_time_unix_nano <= after.start_time_unix_nano
    assert steps[0].start_time_unix_nano == whole.start_time_unix_nano
    assert [event.name for event in whole.events] == ["server answers"]
    told = {pair.key: pair.value.string_value for pair in whole.attributes}
    assert told == {
        "portal.request_id": "browser-12345678",
        "portal.user": "ada",
        "portal.job_id": "7",
    }


def test_a_failed_launch_says_why_and_ends_once(collector: Any) -> None:
    launch(f"http://127.0.0.1:{collector.server_port}", "forged\n", "Slurm refused it.")
    whole, *steps = spans(collector)
    assert whole.status.message == steps[-1].status.message == "Slurm refused it."
    assert whole.parent_span_id == b"" and not whole.events


def test_a_collector_that_hangs_or_is_away_slows_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        seconds, _, whole = launch(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert seconds < 0.5 and whole < 15
    seconds, _, whole = launch("http://127.0.0.1:1")
    assert seconds < 0.5 and whole < 15


def test_without_a_collector_nothing_is_imported() -> None:
    assert launch("")[1] is False
