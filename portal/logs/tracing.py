"""Trace of a launch for OpenTelemetry, where the site has a collector.

OTEL_EXPORTER_OTLP_ENDPOINT and the other standard variables say where it is; it takes OTLP over
HTTP, and the extra ``[otel]``. Without both, nothing is imported and nothing is kept. A collector
that hangs or is away costs a launch nothing: a thread sends, and drops what nobody takes.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..errors import PortalError
from . import request

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
WANTED = any(map(os.environ.get, _ENDPOINTS))
_LAST = 2.0  # seconds that the end of the process waits for the collector
_log = logging.getLogger(__name__)


class LaunchTrace:
    """Trace of one launch: a span "launch", and in it one for each step, of which the first began
    with the request. ``prepared`` must have returned a tracer."""

    def __init__(self, first: str = "form", **attributes: str) -> None:
        self._tracer: Any = prepared()
        self._whole: Any = None
        self._step: Any = None
        self._name = ""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract(request.PASSED_ON.get())
        self._whole = self._tracer.start_span("launch", parent, start_time=request.began_at())
        self.note(request_id=request.request_id(), **attributes)
        self._begin(first, request.began_at())

    def step(self, name: str) -> None:
        """End the step before, and begin this one; nothing if it has begun, or the launch is
        over."""
        if self._whole is not None and name != self._name:
            self._step.end()
            self._begin(name)

    def note(self, **attributes: str) -> None:
        """Add attributes to the whole launch."""
        if self._whole is not None:
            self._whole.set_attributes(
                {f"portal.{name}": text for name, text in attributes.items() if text}
            )

    def end(self, error: str = "") -> None:
        """End the launch: its server answers, or there was an ``error``. Only the first end
        counts."""
        if self._whole is None:
            return
        from opentelemetry.trace import Status, StatusCode

        if error:
            self._step.set_status(Status(StatusCode.ERROR, error))
            self._whole.set_status(Status(StatusCode.ERROR, error))
        else:
            self._whole.add_event("server answers")
        self._step.end()
        self._whole.end()
        self._whole = None

    @contextmanager
    def until_end(self) -> Iterator[None]:
        """End the launch with the enclosed block, and as that ends."""
        try:
            yield
        except BaseException as error:
            self.end(error.message if isinstance(error, PortalError) else type(error).__name__)
            raise
        self.end()

    def _begin(self, name: str, at: int | None = None) -> None:
        from opentelemetry.trace import set_span_in_context

        self._name = name
        context = set_span_in_context(self._whole)
        self._step = self._tracer.start_span(name, context, start_time=at)


@cache
def prepared() -> Any:
    """Return the tracer of this process; None without a collector. The first call imports."""
    if not WANTED or os.environ.get("OTEL_SDK_DISABLED") == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        _log.warning(
            "No traces: %s. Install the extra: pip install 'data-scientist-portal[otel]'.", error
        )
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", "data-scientist-portal")
    provider = TracerProvider(resource=Resource.create(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    atexit.register(_send_the_rest, provider)
    return provider.get_tracer("data-scientist-portal")


def _send_the_rest(provider: Any) -> None:
    thread = threading.Thread(target=provider.shutdown, daemon=True)
    thread.start()
    thread.join(_LAST)
