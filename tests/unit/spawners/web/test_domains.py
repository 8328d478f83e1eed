"""Whose host is whose: people have one each, the portal's service shares the Hub's."""

from __future__ import annotations

import pytest

from spawners.web.domains import host_of, host_of_server, sessions_below


def test_hosts() -> None:
    hosts = {
        ("portal", "service"): "gpu.test",
        ("grafana", "service"): "grafana--service.gpu.test",
        ("ada", "user"): "ada.gpu.test",
        ("portal", "user"): "portal.gpu.test",
        ("jürgen", "user"): "xn--jrgen-kva.gpu.test",
    }
    assert {(name, kind): host_of(name, "gpu.test", kind=kind) for name, kind in hosts} == hosts


@pytest.mark.parametrize("name", ["ada.lovelace", "Ada_L", "x" * 80, "-", "grafana--service"])
def test_nobodys_host_is_anothers(name: str) -> None:
    """One label, so that a wildcard certificate covers it; never the Hub's or a service's."""
    host = host_of(name, "gpu.test", "user")
    label, _, rest = host.partition(".")
    assert rest == "gpu.test" and 0 < len(label) <= 63
    assert host not in ("gpu.test", host_of("grafana", "gpu.test", "service"))


def test_sessions_have_a_domain_of_their_own() -> None:
    hook = sessions_below("sessions.test")
    assert hook("ada", "gpu.test", "user") == "ada.sessions.test"
    assert hook("portal", "gpu.test", "service") == "gpu.test"
    assert hook("grafana", "gpu.test", "service") == "grafana--service.gpu.test"
    assert host_of_server("ada", "course-deep", "gpu.test", hook).endswith(".sessions.test")
