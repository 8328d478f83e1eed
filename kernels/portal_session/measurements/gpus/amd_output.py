"""Parsers of the output of AMD's programs about GPUs, without side effects.

Formats: rocm.docs.amd.com, "AMD SMI CLI tool usage" and "ROCm SMI"; github.com/ROCm/amdsmi,
CHANGELOG.md (from version 26 on, "gpu_data" is around lists).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NamedTuple

MIB = 1024 * 1024
_MOST_MEMORY = 64 * MIB  # MiB
_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}  # AMD's MB is a MiB
_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_UUID = re.compile(r"[A-Za-z0-9/_-]{0,96}")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.~+-]{0,39}")


class FoundGpu(NamedTuple):
    """A single GPU that a program shows, of any job. Memory in MiB; None is unknown."""

    uuid: str = ""
    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    name: str = ""
    partition: bool = False  # partition of a GPU; it has no utilisation of its own


def amd_smi(metric: str, listing: str) -> list[FoundGpu]:
    """Return the GPUs of ``amd-smi metric --json``, with the UUIDs of ``amd-smi list --json``."""
    uuids = {number: _text(gpu.get("uuid")) for number, gpu in _gpu_data(listing).items()}
    # The partitions of a GPU share one UUID.
    parts = Counter(uuid for uuid in uuids.values() if uuid)
    gpus = []
    for number, gpu in sorted(_gpu_data(metric).items()):
        usage, memory = _section(gpu, "usage"), _section(gpu, "mem_usage")
        uuid = uuids.get(number, "")
        gpus.append(
            _gpu(
                "" if parts[uuid] > 1 else uuid,
                _number(usage.get("gfx_activity")),
                _mib(memory.get("used_vram")),
                _mib(memory.get("total_vram")),
                partition=parts[uuid] > 1,
            )
        )
    return gpus


def amd_smi_static(text: str) -> tuple[list[FoundGpu], str]:
    """Return the GPUs of ``amd-smi static --asic --driver --json`` (names alone), and the version
    of the driver."""
    gpus, driver = [], ""
    for _, gpu in sorted(_gpu_data(text).items()):
        asic, about = _section(gpu, "asic"), _section(gpu, "driver")
        gpus.append(FoundGpu(name=_text(asic.get("market_name"))))
        driver = driver or _version(about.get("version") or about.get("driver_version"))
    return gpus, driver


def rocm_smi(text: str) -> tuple[list[FoundGpu], str]:
    """Return the GPUs of ``rocm-smi … --json``, and the version of the driver."""
    document = _json(text)
    if not isinstance(document, dict):
        return [], ""
    cards = []
    for key, card in document.items():
        number = re.fullmatch(r"card([0-9]{1,4})", key)
        if number and isinstance(card, dict):
            # Versions differ in the case of the keys.
            cards.append((int(number[1]), {str(k).lower(): v for k, v in card.items()}))
    gpus = []
    for _, card in sorted(cards, key=lambda pair: pair[0]):
        unique = re.fullmatch(r"0x([0-9a-f]{1,16})", _text(card.get("unique id")).lower())
        names = (card.get(key) for key in ("card series", "card model", "device name"))
        gpus.append(
            _gpu(
                # As ROCR_VISIBLE_DEVICES has it (ROCm, "GPU isolation techniques").
                f"GPU-{unique[1].zfill(16)}" if unique else "",
                _number(card.get("gpu use (%)")),
                _mib(card.get("vram total used memory (b)"), "B"),
                _mib(card.get("vram total memory (b)"), "B"),
                name=next((word for word in map(_text, names) if word), ""),
            )
        )
    system = _section(document, "system")
    return gpus, _version(system.get("Driver version"))


def _gpu(
    uuid: str,
    utilization: float | None,
    used: int | None,
    total: int | None,
    name: str = "",
    partition: bool = False,
) -> FoundGpu:
    """Return one GPU; impossible numbers become None."""
    percent = utilization if utilization is not None and 0 <= utilization <= 100 else None
    if used is not None and total is not None and used > total:
        used = None
    return FoundGpu(
        uuid=uuid if _UUID.fullmatch(uuid) else "",
        utilization=None if partition or percent is None else round(percent),
        memory_used=used,
        memory_total=total,
        name=name,
        partition=partition,
    )


def _gpu_data(text: str) -> dict[int, dict[str, Any]]:
    """Return amd-smi's GPUs by their number: a list, or an object with that list in "gpu_data"."""
    document = _json(text)
    if isinstance(document, dict):
        document = document.get("gpu_data")
    gpus: dict[int, dict[str, Any]] = {}
    for gpu in document if isinstance(document, list) else ():
        number = gpu.get("gpu") if isinstance(gpu, dict) else None
        if isinstance(number, int) and 0 <= number < 4096:
            gpus.setdefault(number, gpu)
    return gpus


def _json(text: str) -> Any:
    """Return the first JSON object or list that begins a line of ``text``, since warnings may
    precede it; None if there is none."""
    for number, start in enumerate(re.finditer(r"^[ \t]*[{\[]", text, re.MULTILINE)):
        if number == 8:
            break
        try:
            return json.JSONDecoder().raw_decode(text, start.end() - 1)[0]
        except (ValueError, RecursionError):
            continue
    return None


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a section of a document; empty for the "N/A" of an unsupported one."""
    section = values.get(name)
    return section if isinstance(section, dict) else {}


def _number(value: Any) -> float | None:
    """Return the number of 97, "97", "97 %" or {"value": 97, "unit": "%"}; None for anything
    else, such as "N/A"."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str):
        match = _NUMBER.match(value.strip())
        value = float(match[0]) if match else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if -1e18 < value < 1e18 else None  # false for NaN


def _mib(value: Any, unit: str = "") -> int | None:
    """Return MiB of an amount with its unit ({"value": 1024, "unit": "MB"}, "1024 MB"), or in
    ``unit``; None for an impossible amount, or one without a unit."""
    if isinstance(value, dict):
        unit = _text(value.get("unit")) or unit
    elif isinstance(value, str):
        unit = value.strip().lstrip("-0123456789.").strip() or unit
    number, size = _number(value), _UNITS.get(unit.upper().replace("IB", "B"))
    if number is None or size is None:
        return None
    amount = number * size / MIB
    return int(amount) if 0 <= amount <= _MOST_MEMORY else None


def _text(value: Any) -> str:
    """Return a short text; "" for anything else, and for "N/A"."""
    if not isinstance(value, str) or not value.isprintable() or value.upper() == "N/A":
        return ""
    return value.strip()[:96]


def _version(value: Any) -> str:
    text = _text(value)
    return text if _VERSION.fullmatch(text) else ""
