"""Client of Prometheus for the metrics of GPU exporters; it does not block the event loop."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import (
    HTTPStreamClosedError,
    HTTPTimeoutError,
    SimpleAsyncHTTPClient,
)

from ..errors import ConfigurationError, Unavailable
from ..models.cluster.cluster import ClusterSnapshot
from ..models.cluster.gpu import GpuReading
from ..plugins import part_of
from . import prometheus_answer
from .exporter import Exporter
from .exporters import EXPORTERS
from .gpu_holders import Gpu
from .settings import TelemetrySettings

_LARGEST = 64 * 1024 * 1024  # bytes of one answer; 8,000 GPUs are 9 MB


_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Prometheus:
    """Prometheus server that ``settings`` name. Its files of a token and of certificates are read
    for each query, since both are renewed while this runs. Raises ConfigurationError.
    """

    title = "Prometheus"
    simulated = False

    def __init__(self, settings: TelemetrySettings) -> None:
        url = settings.prometheus_url
        if not _is_address(url):
            raise ConfigurationError(
                "c.Telemetry.prometheus_url must be the address of Prometheus, such as "
                "'http://prometheus.example.org:9090'."
            )
        for label in (settings.prometheus_node_label, settings.prometheus_index_label):
            if not _LABEL.fullmatch(label):
                raise ConfigurationError(
                    f"{label!r} in c.Telemetry.prometheus_node_label or prometheus_index_label "
                    "is not a label name."
                )
        if not settings.prometheus_exporters:
            raise ConfigurationError("c.Telemetry.prometheus_exporters names no exporter.")
        self.pause = settings.interval
        self._settings = settings
        self._exporters = [
            part_of(EXPORTERS, "exporters", name) for name in settings.prometheus_exporters
        ]
        self._query = url.rstrip("/") + "/api/v1/query"
        self._tls = url.startswith("https:")

    async def readings(self, snapshot: ClusterSnapshot, max_age: int) -> dict[Gpu, GpuReading]:
        """Return a reading per GPU of ``snapshot``, from samples of the last ``max_age`` seconds.

        Raises Unavailable with a sentence that names no address: everyone may see it.
        """
        client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=_LARGEST)
        readings: dict[Gpu, GpuReading] = {}
        try:
            headers, tls = await asyncio.to_thread(self._secrets)
            for exporter in self._exporters:
                query = prometheus_answer.query(exporter, self._labels(exporter))
                answer = await self._ask(client, query, headers, tls)
                readings |= await self._read(exporter, answer, snapshot, max_age)
        finally:
            client.close()
        if not readings:
            named = " or ".join(exporter.title for exporter in self._exporters)
            raise Unavailable(
                f"Prometheus has no readings of these nodes' GPUs: it has no recent {named} "
                "metrics, or c.Telemetry.prometheus_node_label is wrong."
            )
        return readings

    def _labels(self, exporter: Exporter) -> tuple[str, str]:
        """Return the labels of node and index."""
        site = self._settings
        return (
            exporter.node_label or site.prometheus_node_label,
            exporter.index_label or site.prometheus_index_label,
        )

    async def _read(
        self, exporter: Exporter, answer: bytes, snapshot: ClusterSnapshot, max_age: int
    ) -> dict[Gpu, GpuReading]:
        node_label, index_label = self._labels(exporter)
        try:
            return await asyncio.to_thread(
                prometheus_answer.readings,
                exporter,
                answer,
                snapshot,
                time.time(),
                max_age,
                node_label=node_label,
                index_label=index_label,
            )
        except ValueError as error:
            raise Unavailable(
                f"Prometheus's answer cannot be parsed: {str(error)[:200]}."
            ) from None

    def _secrets(self) -> tuple[dict[str, str], ssl.SSLContext | None]:
        """Return the request's headers, and the TLS context that verifies the server."""
        try:
            headers = {}
            if file := self._settings.prometheus_token_file:
                token = Path(file).read_text().strip()
                if not token or not token.isprintable() or not token.isascii():
                    raise ValueError(f"{file} contains no token")
                headers["Authorization"] = f"Bearer {token}"
            authorities = self._settings.prometheus_ca_file or None
            tls = ssl.create_default_context(cafile=authorities) if self._tls else None
        except (OSError, ValueError) as error:
            self._settings.log.error("Telemetry's token or CA file cannot be read: %s", error)
            raise Unavailable(
                "Prometheus cannot be queried: its token file or CA file cannot be read."
            ) from None
        return headers, tls

    async def _ask(
        self,
        client: SimpleAsyncHTTPClient,
        query: str,
        headers: dict[str, str],
        tls: ssl.SSLContext | None,
    ) -> bytes:
        timeout = self._settings.prometheus_timeout
        request = HTTPRequest(
            self._query,
            method="POST",  # as Prometheus advises for long queries
            headers={**headers, "Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode({"query": query, "timeout": f"{timeout:g}s"}),
            connect_timeout=timeout,
            request_timeout=timeout,
            follow_redirects=False,  # the token goes nowhere else
            decompress_response=False,  # the server is near; unpacking would block the event loop
            ssl_options=tls,
        )
        try:
            return (await client.fetch(request)).body
        except HTTPTimeoutError:
            raise Unavailable(f"Prometheus has not answered within {timeout:g} s.") from None
        except HTTPStreamClosedError:
            raise Unavailable("Prometheus's answer was cut off.") from None
        except HTTPClientError as error:
            raise Unavailable(_refusal(error.code)) from None
        except ssl.SSLError as error:
            raise Unavailable(
                f"Prometheus's certificate is not accepted: {error.reason}."
            ) from None
        except OSError as error:
            raise Unavailable(
                f"Prometheus does not answer: {error.strerror or 'no connection'}."
            ) from None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # ValueError for a port that is none
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query


def _refusal(status: int) -> str:
    if status in (401, 403):
        return f"Prometheus rejects the portal's query ({status}): the token is wrong or missing."
    if 300 <= status < 400:
        return f"Prometheus answers with a redirect ({status}), which is not followed."
    return f"Prometheus answers with an error ({status})."
