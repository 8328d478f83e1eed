"""Kinds of sessions that are added to the portal's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from portal.errors import ConfigurationError, InvalidRequest
from portal.launch.kinds import (
    KINDS,
    Kind,
    Unknown,
    add_kinds,
    offered_kinds,
    own_options,
    requested_kind,
    reserved_for,
    stored_kind,
)
from portal.launch.kinds.by_id import KindById
from portal.work.run.kind import Run


class Editor(Kind):
    name = "editor"
    title = "an editor"
    offered = True


class Workers(KindById):
    name = "workers"
    title = "workers"
    option = "workers"
    prefix = "workers"
    noun = "cluster"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    own = list(KINDS)
    yield
    KINDS[:] = own


def test_an_added_kind_is_requested_stored_and_reserved_like_the_portals_own() -> None:
    with pytest.raises(InvalidRequest, match="must be one of: jupyterlab, marimo"):
        requested_kind({"kind": "editor"})
    assert stored_kind("editor") is Unknown
    add_kinds(Editor, Workers)
    add_kinds(Editor)  # again, as by a second reading of the configuration
    assert [kind for kind in KINDS if kind.name in ("editor", "workers")] == [Editor, Workers]
    assert isinstance(requested_kind({"kind": "editor"}), Editor)
    assert stored_kind("editor") is Editor and "editor" in offered_kinds()
    assert "workers" in own_options() and "workers" not in offered_kinds()
    assert reserved_for("workers-0123456789") == (Workers, "")


@pytest.mark.parametrize(
    ("name", "prefix", "sentence"),
    [
        ("run", "other", "Two kinds of sessions have the name 'run'"),
        ("other", Run.prefix, "'other' and 'run' have the same prefix, 'run'"),
    ],
)
def test_what_another_kind_has_is_refused(name: str, prefix: str, sentence: str) -> None:
    other = type("Other", (Kind,), {"name": name, "title": "another", "prefix": prefix})
    with pytest.raises(ConfigurationError, match=sentence):
        add_kinds(other)
    assert other not in KINDS
