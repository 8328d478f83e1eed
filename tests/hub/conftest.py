"""People of the demo, and a clean table after each test."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hub_client import Person, without_session
from jobs import nothing_left


@pytest.fixture(scope="session")
def person(demo: Any) -> Callable[[str], Person]:
    """``person("ada")``: logged in once for the whole run."""

    @functools.cache
    def log_in(name: str) -> Person:
        someone = Person(demo.url, name)
        assert someone.logged_in, f"{name} could not log in"
        return someone

    return log_in


def _without_jobs(demo: Any, person: Person) -> Iterator[Person]:
    for free in without_session(person):
        nothing_left(demo, person.name)
        yield free


@pytest.fixture
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada, with no session before and after."""
    yield from _without_jobs(demo, person("ada"))


@pytest.fixture
def barbara(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Barbara, with no session before and after."""
    yield from _without_jobs(demo, person("barbara"))
