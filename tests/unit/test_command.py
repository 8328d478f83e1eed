"""The ``portal`` command: how it begins."""

from __future__ import annotations

import contextlib
import gc

import pytest

from portal.__main__ import PortalCommand


@pytest.mark.parametrize("line", ([], ["database", "--help"], ["database", "--log-level=nobody"]))
def test_garbage_is_collected_again_however_a_command_begins(line: list[str]) -> None:
    gc.unfreeze()
    with contextlib.suppress(SystemExit):
        PortalCommand().initialize(line)
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0  # what the start has made is not looked through again
