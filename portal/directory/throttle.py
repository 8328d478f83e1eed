"""Limits on password attempts: by name, by address, and below the directory's own lockout.

No I/O, only state in memory. The directory counts wrong passwords too and locks an account after
some, so anyone who can send that many locks a person out. The portal never sends that many, and
reserves some for the people themselves, who are told from strangers by an earlier login with the
same browser or from the same address ("device cookies" in OWASP's terms).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

V = TypeVar("V")

_FREE = 5  # wrong passwords of a name without a wait, if the directory does not lock
_LONGEST = 300.0  # seconds; limit of the doubling wait
_AT_ONCE = 200  # concurrent logins of an address: a class behind a single router
_NAMES = 100_000  # remembered at most, of each kind
_FAMILIAR = 30 * 86400.0  # seconds that an address stays known after a login from it


@dataclass(frozen=True)
class Attempt:
    """Password attempt."""

    name: str  # of the user
    address: str = ""  # its origin, "" if unknown
    device: str = ""  # its browser if this name has logged in with it before, else ""


@dataclass
class _Name:
    """Attempts for a user name. ``wrong``: time and known place ("": none) of wrong passwords."""

    wrong: list[tuple[float, str]] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)  # times of wrong ones since the last right one
    under_way: int = 0


@dataclass
class _Address:
    wrong: list[float] = field(default_factory=list)
    names: dict[str, float] = field(default_factory=dict)  # last login from there, by name
    under_way: int = 0


class LoginThrottle:
    """Waiting times of logins before their passwords are tried.

    ``lockout``: wrong passwords within ``window`` seconds that lock an account in the directory
    (0: it locks none); ``each``: passwords that a login sends there. ``per_address``: wrong
    passwords of an address without a wait. ``clock`` is in seconds.
    """

    def __init__(
        self,
        lockout: int = 5,
        window: float = 900.0,
        per_address: int = 20,
        each: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.window = window
        self.per_address = per_address
        self.clock = clock
        # Stay below the lockout; if that allows two or more, reserve one for the person.
        self.most = max(1, (lockout - 1) // each) if lockout else 0
        self.strangers = max(1, self.most - 1) if lockout else 0
        self._names: dict[str, _Name] = {}
        self._addresses: dict[str, _Address] = {}
        self._familiar: dict[tuple[str, str], float] = {}

    def known(self, attempt: Attempt) -> str:
        """Return the attempt's place if this name has logged in from it before, else ""."""
        if attempt.device:
            return f"device {attempt.device}"
        since = self._familiar.get((attempt.name, attempt.address))
        if attempt.address and since is not None and self.clock() - since < _FAMILIAR:
            return f"address {attempt.address}"
        return ""

    def wait(self, attempt: Attempt) -> float:
        """Return the seconds that this login must wait; 0.0: its password may be tried now."""
        now = self.clock()
        place = self.known(attempt)
        wait = self._wait_for_name(attempt.name, place, now)
        if not place and attempt.address in self._addresses:
            wait = max(wait, self._wait_for_address(self._addresses[attempt.address], now))
        return wait

    def begin(self, attempt: Attempt) -> None:
        """Count a login whose password goes to the directory now. ``end`` must follow."""
        _entry(self._names, attempt.name, _Name).under_way += 1
        if attempt.address:
            _entry(self._addresses, attempt.address, _Address).under_way += 1

    def end(self, attempt: Attempt, right: bool | None) -> None:
        """Record the directory's answer: the password was right or wrong; None: neither."""
        now = self.clock()
        name = _entry(self._names, attempt.name, _Name)
        name.under_way = max(0, name.under_way - 1)
        address = _entry(self._addresses, attempt.address, _Address) if attempt.address else None
        if address:
            address.under_way = max(0, address.under_way - 1)
        if right is False:
            name.wrong.append((now, self.known(attempt)))
            name.sent.append(now)
            if address:
                address.wrong.append(now)
        elif right:
            place = self.known(attempt)
            name.sent = []  # as the directory does
            # A right password clears the wrong ones from its own place; strangers still wait.
            name.wrong = [(at, of) for at, of in name.wrong if not of or of != place]
            if address:
                address.names[attempt.name] = now
                self._familiar.pop((attempt.name, attempt.address), None)
                self._familiar[attempt.name, attempt.address] = now
        for entries in (self._names, self._addresses, self._familiar):
            self._bound(entries)

    # -- the two rules -------------------------------------------------------------------------

    def _wait_for_name(self, name: str, place: str, now: float) -> float:
        record = self._names.get(name)
        if record is None:
            return 0.0
        record.wrong = [(at, of) for at, of in record.wrong if now - at < self.window]
        wrong_times = [at for at, of in record.wrong if of == place]
        if not self.most:
            return _doubling(wrong_times, _FREE, now)
        record.sent = [at for at in record.sent if now - at < self.window]
        wait = _until(record.sent, self.most - record.under_way, self.window, now)
        if not place:
            wait = max(wait, _until(wrong_times, self.strangers, self.window, now))
        return wait

    def _wait_for_address(self, address: _Address, now: float) -> float:
        address.wrong = [at for at in address.wrong if now - at < self.window]
        address.names = {n: at for n, at in address.names.items() if now - at < self.window}
        if address.under_way >= _AT_ONCE:
            return 1.0
        # People behind a router mistype too: each person who logs in allows one more.
        return _doubling(address.wrong, self.per_address + len(address.names), now)

    @staticmethod
    def _bound(entries: dict[Any, Any]) -> None:
        """Drop the oldest entry if there are too many."""
        if len(entries) > _NAMES:
            oldest = next(iter(entries))
            if not getattr(entries[oldest], "under_way", 0):
                del entries[oldest]


def _entry(entries: dict[str, V], key: str, make: Callable[[], V]) -> V:
    """Return the entry of ``key``, created if missing, and make it the newest."""
    entry = entries.pop(key, None) or make()
    entries[key] = entry
    return entry


def _until(wrong: list[float], most: int, window: float, now: float) -> float:
    """Return the seconds until fewer than ``most`` of these are in the window."""
    if len(wrong) < most:
        return 0.0
    if most <= 0:  # those under way may be wrong
        return 1.0
    return max(0.0, wrong[len(wrong) - most] + window - now)


def _doubling(wrong: list[float], free: int, now: float) -> float:
    """Return the seconds to wait: after ``free`` wrong passwords 1, then 2, 4 …; before, none."""
    if len(wrong) < free:
        return 0.0
    wait = min(_LONGEST, 2.0 ** min(30, len(wrong) - free))
    return max(0.0, wrong[-1] + wait - now)
