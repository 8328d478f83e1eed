"""Sorted lists of all jobs and GPUs, made once per version for all viewers.

Sorting ten thousand jobs takes tens of milliseconds. Viewers share the order of what all of them
see alike; what is one's own is put into it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

from portal.models import Frozen
from portal.models.cluster.dashboard import GpuItem, JobItem
from portal.models.person import Person
from portal.models.scope import JOBS_READ

from ..base.listing import natural, ordered

if TYPE_CHECKING:
    from portal.dashboard import ClusterView

T = TypeVar("T", bound=Frozen)

_NAMES = frozenset({"user", "name", "account", "environment"})  # fields that not everybody sees


class Shown(Sequence[T]):
    """``shared`` as one viewer sees it: ``show`` is called for an item only when it is accessed.

    So a page of ten thousand jobs costs what a page costs.
    """

    def __init__(self, shared: Sequence[T], show: Callable[[T], T]) -> None:
        self._shared = shared
        self._show = show

    def __len__(self) -> int:
        return len(self._shared)

    def __iter__(self) -> Iterator[T]:
        return map(self._show, self._shared)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if isinstance(at, slice):
            return [self._show(item) for item in self._shared[at]]
        return self._show(self._shared[at])


class SortCache(Generic[T]):
    """Sorted lists of one kind of items; ``base`` is the key of their base order."""

    def __init__(self, base: Callable[[T], Any]) -> None:
        self._base = base
        self._made: WeakKeyDictionary[ClusterView, dict[tuple[bool, str], Sequence[T]]]
        self._made = WeakKeyDictionary()
        self._last: dict[bool, list[str]] = {}
        self._lock = threading.Lock()

    def get(self, view: ClusterView, named: bool, items: Mapping[str, T], sort: str) -> Sequence[T]:
        """Return the ``items`` of a view, with names or without, in the order that ``sort`` names.

        "" is the base order, "-" its reverse. The first call for a version takes tens of
        milliseconds: call it in a thread. The result is shared: do not change it.
        """
        with self._lock:  # callers that want the same order wait for it
            orders = self._made.setdefault(view, {})
            if (named, "") not in orders:
                orders[named, ""] = self._sorted(named, items)
            if (named, sort) not in orders:
                base = orders[named, ""]
                orders[named, sort] = base[::-1] if sort == "-" else ordered(base, sort)
            return orders[named, sort]

    def _sorted(self, named: bool, items: Mapping[str, T]) -> Sequence[T]:
        # Most are where they were in the version before, which makes sorting fast.
        keys = [key for key in self._last.get(named, ()) if key in items]
        known = set(keys)
        keys += [key for key in items if key not in known]
        keys.sort(key=lambda key: self._base(items[key]))
        self._last[named] = keys
        return [items[key] for key in keys]


_JOBS = SortCache[JobItem](lambda item: natural(item.id))
_GPUS = SortCache[GpuItem](lambda item: (natural(item.node), item.index))


def jobs(view: ClusterView, person: Person, sort: str) -> Sequence[JobItem]:
    """Return all jobs as this person may see them, in this order."""
    named, own = person.may(JOBS_READ), view.own_jobs(person.name)
    placed = view.jobs if named else view.unnamed_jobs
    sort = {"id": "", "-id": "-"}.get(sort, sort)
    if sort.removeprefix("-") == "position":  # set in an item only when it is accessed
        whole = {item.id: item for item in placed.all()} | own
        base = _JOBS.get(view, named, placed.bare, "")
        return ordered((whole[item.id] for item in base), sort)
    if not named and own and sort.removeprefix("-") in _NAMES:
        # Only one's own have names: they come first, then all others in the base order.
        first = ordered(sorted(own.values(), key=lambda item: natural(item.id)), sort)
        rest = _JOBS.get(view, named, placed.bare, "")
        return [*first, *(placed[item.id] for item in rest if item.id not in own)]
    shared = _JOBS.get(view, named, placed.bare, sort)
    return Shown(shared, lambda item: own.get(item.id) or placed[item.id])


def gpus(view: ClusterView, person: Person, sort: str) -> Sequence[GpuItem]:
    """Return all GPUs as this person may see them, in this order."""
    named, own = person.may(JOBS_READ), view.own_gpus(person.name)
    items = view.gpus if named else view.unnamed_gpus
    sort = {"node": "", "-node": "-"}.get(sort, sort)
    if not named and own and sort.removeprefix("-") in _NAMES:
        first = ordered(
            sorted(own.values(), key=lambda item: (natural(item.node), item.index)), sort
        )
        rest = _GPUS.get(view, named, items, "")
        return [*first, *(item for item in rest if _key(item) not in own)]
    return Shown(_GPUS.get(view, named, items, sort), lambda item: own.get(_key(item), item))


def _key(item: GpuItem) -> str:
    return f"{item.node}/{item.index}"
