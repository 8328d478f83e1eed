"""Single values in Slurm's output: times, sizes, numbers, states, host names."""

from __future__ import annotations

import re
import time
from functools import lru_cache

from ...models.cluster.cluster import JobState

_NONE = frozenset(
    {"", "(null)", "null", "none", "n/a", "n/s", "unknown", "unlimited", "infinite", "not_set",
     "invalid", "partition_limit", "partition_default", "(nil)"}
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)(?:[cn]|B)?$", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(?:(\d+):)?(\d+)(?:\.\d+)?$")
_MOST_HOSTS = 100_000


def is_none(text: str) -> bool:
    """Return True if ``text`` is one of Slurm's many words for "no value" or "no limit"."""
    return text.strip().lower() in _NONE


def text_of(text: str) -> str:
    """Return a free text as people may see it: "" for no value, control characters replaced."""
    return "" if text in ("(null)", "N/A") else _CONTROL.sub("\ufffd", text)


def names(text: str) -> tuple[str, ...]:
    """Return the names of a comma-separated list; () for "ALL" and for no value."""
    if is_none(text) or text == "ALL":
        return ()
    return tuple(name for name in text.split(",") if name)


def number(text: str) -> int | None:
    """Return a whole number, or None."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def timestamp(text: str) -> float | None:
    """Parse Unix seconds, "1795229157" (SLURM_TIME_FORMAT=%s), or local "2026-11-21T02:45:57"."""
    if text.isascii() and text.isdigit():
        return float(text) or None
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=4096)
def seconds(text: str) -> int | None:
    """Return the seconds of "1-02:03:04", "2:03:04", "03:04", "04"; None for no limit or value."""
    match = _DURATION.match(text.strip())
    if not match:
        return None
    days, first, second, last = match.groups()
    # With one colon Slurm means minutes:seconds; behind a day it always writes all three.
    hours, minutes = (first, second) if second is not None else (None, first)
    return ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(last)


def mebibytes(text: str) -> int | None:
    """Return the MiB of "4000M", "62.50G", "1024K", "4000" (MiB) or "4Gn"; None for no value.

    Kibibytes are rounded up, so that a small use is never shown as none.
    """
    match = _MEMORY.match(text.strip())
    if not match:
        return None
    size = float(match[1]) * _MIB[match[2].upper()]
    return int(size) if size == int(size) else int(size) + 1


def exit_status(text: str) -> tuple[int | None, int | None]:
    """Return (exit code, signal) of "3:0", or of the raw wait status "768" (squeue 22.05)."""
    code, colon, signal = text.strip().partition(":")
    if colon:
        return number(code), number(signal)
    status = number(code)
    if status is None:
        return None, None
    signalled = status & 0x7F
    return (0 if signalled else status >> 8 & 0xFF), signalled


@lru_cache(maxsize=512)
def job_state(text: str) -> JobState:
    """Return the state of "RUNNING", "CANCELLED by 6101" or "COMPLETED,STAGE_OUT".

    An unknown word is UNKNOWN, which never counts as ended.
    """
    words = re.split(r"[\s,+]+", text.strip().upper())
    word = words[0].rstrip("*")
    # A job that is being requeued or that goes on in a special state is not over.
    for flag in words[1:]:
        if flag in ("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "STAGE_OUT", "COMPLETING"):
            word = flag
    return JobState(word) if word in JobState.__members__ else JobState.UNKNOWN


# sinfo's marks behind a state, sinfo(1) "NODE STATE CODES"; scontrol writes words instead.
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "@": "REBOOT",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


@lru_cache(maxsize=512)
def node_state(text: str) -> str:
    """Return Slurm's state in capitals, its flags as words: "MIXED+NOT_RESPONDING" of "mixed*"."""
    words: list[str] = []
    for part in text.strip().upper().split("+"):
        word = part.rstrip("*~#!%$@^-")
        words += [word] if word else []
        words += [_MARKS[mark] for mark in part[len(word) :]]
    return "+".join(dict.fromkeys(words))


@lru_cache(maxsize=4096)
def hosts(text: str) -> tuple[str, ...]:
    """Return the host names of "gpu[01-03,07],cpu1", in Slurm's order; () for no value.

    Raises ValueError for unbalanced brackets and for more than 100,000 hosts.
    """
    if is_none(text):
        return ()
    expanded: list[str] = []
    for part in _split_outside_brackets(text):
        expanded += _expand(part)
        if len(expanded) > _MOST_HOSTS:
            raise ValueError(f"more than {_MOST_HOSTS} hosts in one list")
    return tuple(expanded)


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
        if depth not in (0, 1):
            raise ValueError(f"not a list of hosts: {text[:80]!r}")
    if depth:
        raise ValueError(f"not a list of hosts: {text[:80]!r}")
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _expand(part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    ranges, _, tail = rest.partition("]")
    tails = _expand(tail) if tail else [""]
    expanded: list[str] = []
    for span in ranges.split(","):
        first, _, last = span.strip().partition("-")
        last = last or first
        if not (first.isdigit() and last.isdigit()) or int(last) - int(first) > _MOST_HOSTS:
            raise ValueError(f"not a range of hosts: {span[:80]!r}")
        for index in range(int(first), int(last) + 1):
            expanded += [f"{head}{index:0{len(first)}d}{end}" for end in tails]
            if len(expanded) > _MOST_HOSTS:
                raise ValueError(f"more than {_MOST_HOSTS} hosts in one list")
    return expanded
