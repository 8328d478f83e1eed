"""The file of routes: what is wrong is left out, and what was good holds."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from portal.gateway.keys import CERTIFICATE, ensure_identity
from portal.gateway.routes import RoutesFile


def write(path: Path, models: Any, version: int = 1) -> None:
    path.write_text(json.dumps({"version": version, "models": models}))
    path.chmod(0o600)


def replica(certificate: str, **more: Any) -> dict[str, Any]:
    return {"id": "a", "address": "node1:40000", "certificate": certificate, **more}


def test_one_wrong_part_is_left_out_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    identity = ensure_identity(tmp_path)
    assert identity.stat().st_mode & 0o777 == 0o600
    pem = (tmp_path / CERTIFICATE).read_text()
    assert "PRIVATE" not in pem
    path = tmp_path / "routes.json"
    routes = RoutesFile(path, identity, logging.getLogger("test"))
    good = {"owner": "ada", "replicas": [replica(pem)], "new_field": 1}
    bad = [replica("no"), replica(pem, address="node1"), replica(pem, weight=-1)]
    write(path, {"good": good, "half": {"owner": "ada", "replicas": [replica("no"), replica(pem)]}})
    assert routes.changed() and routes.read() and not routes.changed()
    assert len(routes.models["good"].replicas) == len(routes.models["half"].replicas) == 1
    assert routes.context(routes.models["good"].replicas[0])
    # A definition that becomes wrong: its last good one holds, and the others go on.
    write(path, {"good": {"owner": "ada", "replicas": bad}, "new": {"owner": "bob"}, "B/d": good})
    assert routes.read()
    assert set(routes.models) == {"good", "new"}
    assert routes.models["good"].replicas[0].address == "node1:40000"
    said = len(caplog.records)
    write(path, {"good": {"owner": "ada", "replicas": bad}, "new": {"owner": "bob"}, "B/d": good})
    routes.read()
    assert len(caplog.records) == said, "it is said at each writing"


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"version": 2}', '{"version": 1}', "[" * 100_000]
)
def test_a_broken_file_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "routes.json"
    routes = RoutesFile(path, ensure_identity(tmp_path), logging.getLogger("test"))
    write(path, {"good": {"owner": "ada"}})
    assert routes.read()
    path.write_text(text)
    assert not routes.read() and set(routes.models) == {"good"}


def test_a_removed_replica_is_known_until_the_next_content(tmp_path: Path) -> None:
    """A request may have taken its place in the moment in which the file is read."""
    path, identity = tmp_path / "routes.json", ensure_identity(tmp_path)
    routes = RoutesFile(path, identity, logging.getLogger("test"))
    write(
        path, {"mm": {"owner": "ada", "replicas": [replica((tmp_path / CERTIFICATE).read_text())]}}
    )
    routes.read()
    (removed,) = routes.models["mm"].replicas
    write(path, {"mm": {"owner": "ada"}})
    assert routes.read() and routes.context(removed)
    routes.read()
    with pytest.raises(KeyError):
        routes.context(removed)


def test_a_file_that_others_can_write_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    routes = RoutesFile(path, ensure_identity(tmp_path), logging.getLogger("test"))
    write(path, {"good": {"owner": "ada"}})
    path.chmod(0o622)
    assert not routes.read() and not routes.models


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ensure_identity(tmp_path).chmod(0o644)
    with pytest.raises(ValueError, match="must belong to the gateway's account"):
        ensure_identity(tmp_path)
