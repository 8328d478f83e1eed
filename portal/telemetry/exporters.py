"""Supported exporters: one file each, and this table."""

from __future__ import annotations

from .amd_exporter import AmdExporter
from .dcgm import Dcgm
from .exporter import Exporter

_ALL: tuple[Exporter, ...] = (Dcgm(), AmdExporter())
EXPORTERS = {exporter.name: exporter for exporter in _ALL}
