"""What the Hub's log says of sessions that wait for Slurm."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator

import pytest
from jupyterhub.handlers import base

from spawners.config.startup import _EXPECTED, no_warning_of_waits


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.getLogger("JupyterHub of this test")
    log.setLevel(logging.INFO)
    log.addFilter(no_warning_of_waits)
    yield log
    log.removeFilter(no_warning_of_waits)
    log.handlers.clear()


@pytest.fixture
def said(log: logging.Logger) -> list[logging.LogRecord]:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    log.addHandler(handler)
    return records


@pytest.mark.parametrize("words", _EXPECTED)
def test_a_wait_is_no_warning(
    log: logging.Logger, said: list[logging.LogRecord], words: str
) -> None:
    assert f'"{words}"' in inspect.getsource(base), "JupyterHub says it in other words"
    log.warning(words, *("ada",) * words.count("%s"))
    assert [(one.levelname, one.levelno) for one in said] == [("INFO", logging.INFO)]


def test_other_warnings_stay(log: logging.Logger, said: list[logging.LogRecord]) -> None:
    log.warning("User %s is slow to be added to the proxy (timeout=%s)", "ada", 10)
    assert [one.levelname for one in said] == ["WARNING"]
