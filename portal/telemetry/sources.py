"""Telemetry sources: one file each, and this table.

Sessions' own reports are not a source of this table (reported.py): the sessions send them, they
complement any source, and they never count as usage.
"""

from __future__ import annotations

from collections.abc import Callable

from .none import NoSource
from .prometheus import Prometheus
from .settings import TelemetrySettings
from .simulated import Simulated
from .source import TelemetrySource

# By their names in c.Telemetry.source. Each is made once, with the settings; raises
# ConfigurationError for invalid settings.
SOURCES: dict[str, Callable[[TelemetrySettings], TelemetrySource]] = {
    "none": NoSource,
    "prometheus": Prometheus,
    "simulated": Simulated,
}
