"""Debian's Firefox (firefox-esr), driven by Playwright through
tests/support/pages/firefox_relay.py."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api")

PROGRAM = shutil.which("firefox-esr")
_RELAY = Path(__file__).with_name("firefox_relay.py")


@contextlib.contextmanager
def firefox(folder: Path) -> Iterator[playwright.Browser]:
    """Yield the headless browser with its own profile; ``folder`` must be empty."""
    if not PROGRAM:
        pytest.skip("no firefox-esr on this machine")
    starter = folder / "firefox"  # Playwright takes a single file
    command = shlex.join([sys.executable, str(_RELAY), PROGRAM])
    starter.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    starter.chmod(0o755)
    with playwright.sync_playwright() as started:
        running = started.firefox.launch(channel="moz-firefox", executable_path=starter)
        yield running
        running.close()
