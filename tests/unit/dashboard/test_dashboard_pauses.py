"""What keeps pauses short is undone at the end, and collects what has to be collected."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

from portal.dashboard import pauses
from portal.dashboard.pauses import Pauses


class Knot:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.me = self


def test_the_settings_are_put_back() -> None:
    gc.unfreeze()  # pytest may have frozen what it imported
    before = (sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count())
    with Pauses().shortened():
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[2] > before[1][2]
        assert gc.get_freeze_count() > 0
    assert (sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count()) == before


def test_what_holds_itself_goes_when_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Pauses()
    with one.shortened():
        gone = weakref.ref(Knot())
        one.tidy()
        assert gone() is not None
        monkeypatch.setattr(pauses, "_PERIOD", -1.0)
        one.tidy()
        assert gone() is None
