"""Estimates in words, always with their uncertainty: for the launch page and inside sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..models.session.estimate import Basis, Estimate, Outlook
from ..models.words import clock, duration

_SOURCES = {
    Basis.SLURM: "Slurm's estimate; earlier if other jobs end before their time limit.",
    Basis.LARGER: "Slurm's estimate for a larger request; this one may start earlier.",
    Basis.SNAPSHOT: "Based on what is free now.",
    Basis.QUEUE: "Based on Slurm's estimate for similar jobs ahead in the queue.",
    Basis.WAITS: "Based on how long similar sessions waited.",
    Basis.LIMIT: "",
    Basis.NONE: "",
}


def about(seconds: float) -> str:
    """Return a wait as exactly as it can be known: "about 25 min", "more than 1 d"."""
    minutes = seconds / 60
    if minutes < 1.5:
        return f"about {duration(60)}"
    if minutes < 10:
        return f"about {duration(60 * round(minutes))}"
    if minutes < 57.5:
        return f"about {duration(300 * round(minutes / 5))}"
    hours = round(minutes / 60)
    if hours < 24:
        return f"about {duration(3600 * hours)}"
    days = min(max(1, int(seconds // 86_400)), 7)
    return f"more than {duration(86_400 * days)}"


def sentence(estimate: Estimate, now: float) -> str:
    """Return an estimate as "Starts now.", "Starts in about 25 min.", or why it is unknown."""
    if estimate.outlook is Outlook.NOW:
        return "Starts now."
    if estimate.outlook is Outlook.LATER and estimate.starts_at is not None:
        start = f"Starts in {about(estimate.starts_at - now)}."
        return f"{start} {estimate.reason}".strip()
    return estimate.reason or "Start time unknown."


def source(estimate: Estimate) -> str:
    """Return the source of an estimate; "" if the sentence says so already."""
    if estimate.outlook is Outlook.NOW and estimate.basis is Basis.SLURM:
        return "Slurm's estimate."
    if estimate.outlook in (Outlook.NOW, Outlook.LATER):
        return _SOURCES[estimate.basis]
    return ""


def day(waits: Sequence[float | None], now: float) -> str:
    """Return the waits of the next day's hours as a sentence; "" for none."""
    if not waits:
        return ""
    hours = [hour for hour, wait in enumerate(waits) if wait != 0.0]
    if not hours:
        return f"No wait is expected over the next {len(waits)} h."
    sentences = []
    if longest := max(wait or 0.0 for wait in waits):
        sentences.append(f"The longest wait over the next {len(waits)} h is {about(longest)}.")
    if None in waits:
        unknown = clock(now + waits.index(None) * 3600, now)
        sentences.append(f"No start is known for requests after {unknown}.")
    elif hours[-1] + 1 < len(waits):
        free = clock(now + (hours[-1] + 1) * 3600, now)
        sentences.append(f"No wait is expected from {free}.")
    return " ".join(sentences)


def starts(estimate: Estimate, now: float) -> str:
    """Return the start as an addition to a choice: "starts now", "in about 5 min"."""
    if estimate.outlook is Outlook.NOW or estimate.starts_at is None:
        return "starts now"
    return f"in {about(estimate.starts_at - now)}"


def choice(changes: Mapping[str, Any], time: str = "") -> str:
    """Return what a nearby choice changes: "2 GPUs", "t4", "partition cpu", "1 h"."""
    if "gpus" in changes:
        return f"{changes['gpus']} GPU{'' if changes['gpus'] == 1 else 's'}"
    if "gpu_type" in changes:
        return str(changes["gpu_type"])
    if "partition" in changes:
        return f"partition {changes['partition']}"
    return time
