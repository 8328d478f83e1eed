"""How often a password may be tried: by name, by address, and within the directory's own lockout.

Pure, but for what it remembers. The directory counts wrong passwords too, and locks an account
after some: whoever sends it that many locks somebody out. So it never gets that many from here,
and a part of them is kept for the people themselves, who are told from strangers by having logged
in before with the same browser or from the same address (OWASP calls it "device cookies").
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

V = TypeVar("V")

_FREE = 5  # wrong passwords of one name without a wait, where the directory does not lock
_LONGEST = 300.0  # seconds; the longest wait that doubling makes
_AT_ONCE = 200  # logins of one address that may be under way: a class behind one router
_NAMES = 100_000  # remembered at most, of each kind
_FAMILIAR = 30 * 86400.0  # seconds that an address stays one where somebody has logged in


@dataclass(frozen=True)
class Attempt:
    """Somebody's password, about to be tried. ``address``: where from, "" where that is not known;
    ``device``: the browser where this name has logged in before, "" for none."""

    name: str
    address: str = ""
    device: str = ""


@dataclass
class _Name:
    """Of one user name: its wrong passwords (when, and from which known place or "")."""

    wrong: list[tuple[float, str]] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)  # those since the last right one
    under_way: int = 0


@dataclass
class _Address:
    wrong: list[float] = field(default_factory=list)
    names: dict[str, float] = field(default_factory=dict)  # who logged in from there, and when
    under_way: int = 0


class LoginThrottle:
    """Says how long a login has to wait before its password is tried.

    ``lockout``: so many wrong passwords within ``window`` seconds lock an account in the
    directory (0: it locks none); ``each``: how many one login sends there. ``per_address``: wrong
    passwords of one address without a wait. ``clock`` is in seconds.
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
        # One less than locks; and one of those, where there are two, is for the people themselves.
        self.most = max(1, (lockout - 1) // each) if lockout else 0
        self.strangers = max(1, self.most - 1) if lockout else 0
        self._names: dict[str, _Name] = {}
        self._addresses: dict[str, _Address] = {}
        self._familiar: dict[tuple[str, str], float] = {}

    def known(self, attempt: Attempt) -> str:
        """The place where this name has logged in before; "" for a stranger's."""
        if attempt.device:
            return f"device {attempt.device}"
        since = self._familiar.get((attempt.name, attempt.address))
        if attempt.address and since is not None and self.clock() - since < _FAMILIAR:
            return f"address {attempt.address}"
        return ""

    def wait(self, attempt: Attempt) -> float:
        """Seconds that this login has to wait; 0.0: its password may be tried now."""
        now = self.clock()
        place = self.known(attempt)
        wait = self._wait_for_name(attempt.name, place, now)
        if not place and attempt.address in self._addresses:
            wait = max(wait, self._wait_for_address(self._addresses[attempt.address], now))
        return wait

    def begin(self, attempt: Attempt) -> None:
        """Count a login whose password goes to the directory now. ``end`` must follow."""
        _kept(self._names, attempt.name, _Name).under_way += 1
        if attempt.address:
            _kept(self._addresses, attempt.address, _Address).under_way += 1

    def end(self, attempt: Attempt, right: bool | None) -> None:
        """Take what the directory said: the password was right or wrong; None: it said neither."""
        now = self.clock()
        name = _kept(self._names, attempt.name, _Name)
        name.under_way = max(0, name.under_way - 1)
        address = _kept(self._addresses, attempt.address, _Address) if attempt.address else None
        if address:
            address.under_way = max(0, address.under_way - 1)
        if right is False:
            name.wrong.append((now, self.known(attempt)))
            name.sent.append(now)
            if address:
                address.wrong.append(now)
        elif right:
            place = self.known(attempt)
            name.sent = []  # so does the directory
            # Who logged in did not guess. What strangers did is theirs to wait for.
            name.wrong = [(at, of) for at, of in name.wrong if not of or of != place]
            if address:
                address.names[attempt.name] = now
                self._familiar.pop((attempt.name, attempt.address), None)
                self._familiar[attempt.name, attempt.address] = now
        for kept in (self._names, self._addresses, self._familiar):
            self._bound(kept)

    # -- the two rules -------------------------------------------------------------------------

    def _wait_for_name(self, name: str, place: str, now: float) -> float:
        found = self._names.get(name)
        if found is None:
            return 0.0
        found.wrong = [(at, of) for at, of in found.wrong if now - at < self.window]
        of_these = [at for at, of in found.wrong if of == place]
        if not self.most:
            return _doubling(of_these, _FREE, now)
        found.sent = [at for at in found.sent if now - at < self.window]
        wait = _until(found.sent, self.most - found.under_way, self.window, now)
        if not place:
            wait = max(wait, _until(of_these, self.strangers, self.window, now))
        return wait

    def _wait_for_address(self, address: _Address, now: float) -> float:
        address.wrong = [at for at in address.wrong if now - at < self.window]
        address.names = {n: at for n, at in address.names.items() if now - at < self.window}
        if address.under_way >= _AT_ONCE:
            return 1.0
        # People behind one router mistype too: each who logs in there makes room for another.
        return _doubling(address.wrong, self.per_address + len(address.names), now)

    @staticmethod
    def _bound(kept: dict[Any, Any]) -> None:
        """Forget the oldest one of too many."""
        if len(kept) > _NAMES:
            oldest = next(iter(kept))
            if not getattr(kept[oldest], "under_way", 0):
                del kept[oldest]


def _kept(kept: dict[str, V], key: str, make: Callable[[], V]) -> V:
    """The entry of ``key``, made where there is none, as the newest of all."""
    entry = kept.pop(key, None) or make()
    kept[key] = entry
    return entry


def _until(wrong: list[float], most: int, window: float, now: float) -> float:
    """Seconds until fewer than ``most`` of these are in the window."""
    if len(wrong) < most:
        return 0.0
    if most <= 0:  # those under way may be wrong ones
        return 1.0
    return max(0.0, wrong[len(wrong) - most] + window - now)


def _doubling(wrong: list[float], free: int, now: float) -> float:
    """Seconds to wait after these wrong passwords: none for ``free`` of them, then 1, 2, 4 …"""
    if len(wrong) < free:
        return 0.0
    wait = min(_LONGEST, 2.0 ** min(30, len(wrong) - free))
    return max(0.0, wrong[-1] + wait - now)
