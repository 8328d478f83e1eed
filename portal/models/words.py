"""Numbers in words, for the portal's sentences."""

from __future__ import annotations

import time
from datetime import datetime


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 GPU", "2 GPUs"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def shortened(text: str, most: int) -> str:
    """Return an error's text with at most ``most`` characters. Of a chain of causes, "a: b: c", the
    first and the last ones are kept, whole; the last one says most."""
    if len(text) <= most:
        return text
    first, *rest = text.split(": ")
    last: list[str] = []
    while rest and len(first) + sum(map(len, last)) + 2 * len(last) + len(rest[-1]) + 5 <= most:
        last.insert(0, rest.pop())
    if last:
        return f"{first}: …: {': '.join(last)}" if rest else f"{first}: {': '.join(last)}"
    return f"{text[: most - 1].rpartition(' ')[0] or text[: most - 1]}…"


def clock(moment: float, now: float, *, zone: bool = False) -> str:
    """Return Unix seconds as the server's local time, as static/js/words.js does: "14:08" today,
    "22 Nov, 14:08", "3 Jan 2025, 14:08"; with ``zone``, "14:08 UTC"."""
    then, today = time.localtime(moment), time.localtime(now)
    hour = time.strftime("%H:%M %Z" if zone else "%H:%M", then)
    if then[:3] == today[:3]:
        return hour
    year = "" if then.tm_year == today.tm_year else f" {then.tm_year}"
    return f"{then.tm_mday} {time.strftime('%b', then)}{year}, {hour}"


def dated(then: datetime) -> str:
    """Return a time with its day and year, as `clock` does: "3 Jan 2025, 14:08"."""
    return f"{then.day} {then:%b %Y, %H:%M}"


def ordinal(number: int) -> str:
    """Return an ordinal number: "1st", "2nd", "3rd", "11th"."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def duration(seconds: float) -> str:
    """Return seconds in words, at most two units, as static/js/words.js does: "45 s", "12 min",
    "1 h 5 min", "3 d 4 h"."""
    left = max(0, int(seconds))
    if left < 60:
        return f"{left} s"
    units = [(86_400, "d"), (3600, "h"), (60, "min")]
    while left < units[0][0]:
        units.pop(0)
    parts = []
    for unit, name in units[:2]:
        number, left = divmod(left, unit)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts)
