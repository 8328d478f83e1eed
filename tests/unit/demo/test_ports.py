"""Ports that are picked are nobody else's, and a server can still listen on them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.demo.daemons import ports


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A range so small that who does not hold a port picks it again."""
    monkeypatch.setattr(ports, "_holders", holders := [])
    start = next(
        port for port in range(31000, 32000, 10) if all(map(ports.free, range(port, port + 6)))
    )
    monkeypatch.setattr(ports, "_RANGE", range(start, start + 6))
    yield
    for holder in holders:
        holder.close()


def test_no_port_is_picked_twice_though_nobody_listens_yet() -> None:
    """The kernel knows who holds one, so this holds between processes too."""
    assert sorted(ports.free_port() for _ in ports._RANGE) == list(ports._RANGE)


def test_a_server_listens_on_a_port_that_was_picked() -> None:
    port = ports.free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not ports.free(port)
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    with socket.create_server(("", port)):  # and again, on all addresses
        pass


def test_names_keep_their_ports(tmp_path: Path) -> None:
    first = ports.Ports(tmp_path / "ports.json")
    first.pick("hub", "proxy")
    assert first["hub"] != first["proxy"]
    again = ports.Ports(tmp_path / "ports.json")
    again.pick("hub", "proxy")
    assert (again["hub"], again["proxy"]) == (first["hub"], first["proxy"])
