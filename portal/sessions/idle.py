"""Rules on idle GPUs of a session: whether and since when they are idle, and what follows. Pure.

Idle means: no GPU of the session's job is used, no kernel executes anything, nothing happens in a
terminal, and no program there computes. If any of these is unknown, the session is not idle: the
time does not count, and it begins anew when all of them are known again.

Times are seconds of a clock that is never set (``look``'s ``now``); ``state`` converts them to
Unix seconds for people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from portal.errors import Conflict
from portal.models.session.idle import IdleMode, IdleState
from portal.models.words import count

_SAVE = 60.0  # seconds before the stop


@dataclass(frozen=True)
class Rules:
    """Rules for one session. Seconds."""

    mode: IdleMode
    limit: float  # idleness after which it stops
    warn: float  # lead time of the owner's warning
    snooze: float
    snoozes: int
    silence: float  # longest pause between two looks that counts as watched
    exempt: str = ""  # sentence why the session is exempt, or ""

    def notice(self, snoozed: bool) -> float:
        """Return the seconds between the warning and the stop: half of the whole time at most."""
        return min(self.warn, (self.snooze if snoozed else self.limit) / 2)


@dataclass(frozen=True)
class IdleFindings:
    """Findings of one look: whether a GPU is used, and the seconds since the last activity in
    kernels and terminals. None: unknown; ``unknown`` is the sentence why."""

    used: bool | None = None
    age: float | None = None
    unknown: str = ""


@dataclass(frozen=True)
class IdleClock:
    """State of one session that is kept from look to look."""

    looked_at: float | None = None
    since: float | None = None  # idle since; None: used, or not known
    warned_at: float | None = None
    snoozed_at: float | None = None
    snoozed_until: float | None = None
    snoozes: int = 0  # since the last activity
    unknown: str = ""


def next_clock(clock: IdleClock, seen: IdleFindings, rules: Rules, now: float) -> IdleClock:
    """Return the clock after a look at ``now``."""
    last, clock = clock.looked_at, replace(clock, looked_at=now)
    if seen.used:
        return _active(clock)
    if seen.used is None or seen.age is None:
        return replace(clock, since=None, warned_at=None, unknown=seen.unknown)
    watched = last is not None and 0 <= now - last <= rules.silence
    began = clock.since if watched and clock.since is not None else now
    done = now - seen.age
    if clock.snoozed_at is not None and done > clock.snoozed_at:
        clock = _active(clock)
    clock = replace(clock, since=max(began, done), unknown="")
    if clock.warned_at is not None and (done > clock.warned_at or not watched):
        clock = replace(clock, warned_at=None)
    return _warned(clock, rules, now)


def due(clock: IdleClock, rules: Rules, now: float) -> bool:
    """Return True if the session is to be stopped now."""
    at = stops_at(clock, rules)
    return at is not None and clock.warned_at is not None and now >= at


def stops_at(clock: IdleClock, rules: Rules) -> float | None:
    """Return the time at which the session is stopped without activity; None: never. Its owner is
    warned before that, even if the rules have changed meanwhile."""
    if clock.since is None or rules.mode is not IdleMode.ON or rules.exempt:
        return None
    at, notice = _end(clock, rules)
    return at if clock.warned_at is None else max(at, clock.warned_at + notice)


def snoozed(clock: IdleClock, rules: Rules, now: float) -> IdleClock:
    """Return the clock after its owner has snoozed the warning.

    Raises Conflict if there is nothing to put off, or if it was put off too often.
    """
    if rules.mode is IdleMode.OFF:
        raise Conflict("This site does not check for idle GPUs: there is nothing to snooze.")
    if rules.exempt:
        raise Conflict(f"{rules.exempt} There is nothing to snooze.")
    if clock.since is None or clock.warned_at is None:
        raise Conflict("This session is not about to be stopped: there is nothing to snooze.")
    if not left(clock, rules):
        most = f"{count(rules.snoozes, 'snooze')} in a row" if rules.snoozes else "no snooze"
        raise Conflict(
            f"This site allows {most}. Use the GPUs, or save your work: the session can be "
            "launched again at any time."
        )
    until = now + rules.snooze
    put_off = replace(
        clock, snoozed_at=now, snoozed_until=until, snoozes=clock.snoozes + 1, warned_at=None
    )
    return _warned(put_off, rules, now)


def left(clock: IdleClock, rules: Rules) -> int:
    """Return the number of snoozes that are left."""
    return max(0, rules.snoozes - clock.snoozes) if rules.snooze > 0 else 0


def state(clock: IdleClock, rules: Rules, now: float, unix: float) -> IdleState:
    """Return the state for people; ``unix`` is the wall clock at ``now`` (Unix seconds)."""

    def on_the_wall(at: float | None) -> float | None:
        return None if at is None else unix + (at - now)

    stop, snoozes = stops_at(clock, rules), left(clock, rules)
    _, notice = _end(clock, rules) if clock.since is not None else (0.0, 0.0)
    until = clock.snoozed_until
    return IdleState(
        mode=rules.mode,
        idle_since=on_the_wall(clock.since),
        warned=clock.warned_at is not None,
        stops_at=on_the_wall(stop),
        save_at=on_the_wall(None if stop is None else stop - min(_SAVE, notice / 2)),
        snoozed_until=on_the_wall(until if until is not None and until > now else None),
        exempt=rules.exempt,
        unknown=clock.unknown,
        limit=rules.limit,
        snooze=rules.snooze if snoozes else 0,
        snoozes_left=snoozes,
    )


def _active(clock: IdleClock) -> IdleClock:
    return IdleClock(looked_at=clock.looked_at)


def _end(clock: IdleClock, rules: Rules) -> tuple[float, float]:
    """Return the time at which the idleness reaches its limit or the snooze ends, and how long
    before that the owner is warned."""
    assert clock.since is not None
    at, until = clock.since + rules.limit, clock.snoozed_until
    if until is not None and until > at:
        return until, rules.notice(True)
    return at, rules.notice(False)


def _warned(clock: IdleClock, rules: Rules, now: float) -> IdleClock:
    if clock.since is None or rules.exempt:
        return replace(clock, warned_at=None)
    at, notice = _end(clock, rules)
    if now < at - notice:
        return replace(clock, warned_at=None)
    return clock if clock.warned_at is not None else replace(clock, warned_at=now)
