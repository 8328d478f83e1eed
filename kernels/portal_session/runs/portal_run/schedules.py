"""Commands of ``portal-run`` about schedules: schedule, schedules, unschedule."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...job_kernels.broker_client import Broker
from .. import RunError
from .listing import named_run, runs_of
from .text_table import aligned, printable

COMMANDS = ("schedule", "schedules", "unschedule")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_PATH = "/runs/schedules"


def run(argv: Sequence[str], broker: Broker) -> str:
    """Execute one of the COMMANDS; return what to print. Raises RunError, BrokerError."""
    command, *words = argv
    if command == "schedule":
        return _schedule(words, broker)
    if command == "schedules":
        if words:
            raise RunError(f"'portal-run schedules' takes no argument: remove '{words[0][:100]}'.")
        return _table(_schedules(broker))
    if len(words) != 1:
        raise RunError("Name one schedule: portal-run unschedule NAME.")
    schedules = _schedules(broker)
    matches = [each for each in schedules if words[0] in (each.get("name"), each.get("id"))]
    if not matches:
        raise RunError(f"You have no schedule of '{words[0][:100]}'. See 'portal-run schedules'.")
    if len(matches) > 1:
        ids = ", ".join(printable(schedule, "id") for schedule in matches)
        raise RunError(f"You have {len(matches)} schedules of '{words[0]}'. Specify the id: {ids}.")
    broker.ask("DELETE", f"{_PATH}/{matches[0]['id']}")
    return f"The schedule of '{printable(matches[0], 'name')}' was deleted."


def _schedule(words: Sequence[str], broker: Broker) -> str:
    options = argparse.ArgumentParser(prog="portal-run schedule", allow_abbrev=False)
    options.add_argument("name", help="name of the run to repeat, or its id; with its whole chain")
    options.add_argument("--at", required=True, metavar="HH:MM", help="time of day, such as 02:00")
    options.add_argument("--days", default="mon-sun", help="such as mon-fri, or mon,wed,sat")
    options.add_argument("--until", default="", metavar="YYYY-MM-DD", help="last day")
    options.add_argument("--timezone", help="such as Europe/Berlin; the site's by default")
    options.add_argument(
        "--notify",
        choices=("end", "failure"),
        action="append",
        default=[],
        help="mail at the end of each run, or at its first failed point, and about missed times",
    )
    chosen = options.parse_args(words)
    if not _TIME.fullmatch(chosen.at):
        raise RunError(
            f"'{chosen.at[:100]}' is not a time of day. Write it with two digits for hours and "
            "minutes, from 00:00 to 23:59, such as 02:30."
        )
    body: dict[str, Any] = {
        "run": named_run(runs_of(broker), chosen.name)["id"],
        "at": chosen.at,
        "days": list(read_days(chosen.days)),
        "until": chosen.until,
        "notify": sorted(set(chosen.notify)),
    }
    if chosen.timezone is not None:
        body["timezone"] = chosen.timezone
    schedule = broker.ask("POST", _PATH, body)
    chain = [
        printable(each, "name") for each in schedule.get("runs") or () if isinstance(each, dict)
    ]
    return "\n".join(
        [
            f"'{printable(schedule, 'name')}' will be repeated at {_when(schedule)}.",
            *([f"Chain: {' → '.join(chain)}"] if len(chain) > 1 else ()),
            f"Next:  {_clock(schedule, 'next_at')}",
            f"Id:    {printable(schedule, 'id')}",
        ]
    )


def read_days(text: str) -> tuple[int, ...]:
    """Return the days of "mon-fri" or "mon,wed,sat" as numbers, 0 being Monday. Raises RunError."""
    numbers: list[int] = []
    for part in text.lower().split(","):
        first, dash, last = part.strip().partition("-")
        if first not in _DAYS or (dash and last not in _DAYS):
            raise RunError(
                f"'{text[:100]}' is not a list of days. Examples are 'mon-fri' and 'mon,wed,sat'."
            )
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        # "sat-mon" goes over the end of the week.
        numbers += [(begin + step) % 7 for step in range((end - begin) % 7 + 1)]
    return tuple(sorted(set(numbers)))


def _schedules(broker: Broker) -> list[dict[str, Any]]:
    items = broker.ask("GET", _PATH).get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _table(schedules: Sequence[Mapping[str, Any]]) -> str:
    if not schedules:
        return "You have no schedules."
    rows = [("RUN", "ID", "TIMES", "NEXT", "LAST", "MESSAGE")]
    for schedule in schedules:
        following = "paused" if schedule.get("paused") else _clock(schedule, "next_at")
        last, id_ = _clock(schedule, "last_at"), printable(schedule, "id")
        name, message = printable(schedule, "name"), printable(schedule, "message")
        rows.append((name, id_, _when(schedule), following or "ended", last, message))
    return aligned(rows)


def _when(schedule: Mapping[str, Any]) -> str:
    days = schedule.get("days")
    numbers = [day for day in days if day in range(7)] if isinstance(days, list) else []
    names = "each day" if len(numbers) == 7 else ",".join(_DAYS[day] for day in numbers)
    until = printable(schedule, "until")
    at, zone = printable(schedule, "at"), printable(schedule, "timezone")
    return f"{at} {zone}, {names}" + (f" until {until}" if until else "")


def _clock(schedule: Mapping[str, Any], name: str) -> str:
    """Return a time of a schedule in the schedule's own time zone, which the user has chosen, or
    in UTC if this machine does not know that; "" for no time."""
    at = schedule.get(name)
    if not isinstance(at, (int, float)) or isinstance(at, bool):
        return ""
    try:
        zone: tzinfo = ZoneInfo(str(schedule.get("timezone")))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = timezone.utc
    return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M %Z")
