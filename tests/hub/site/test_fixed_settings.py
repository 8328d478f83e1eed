"""A Hub whose configuration still sets what is fixed now: it starts, and says so once."""

from __future__ import annotations

from typing import Any

from other_hub import other_hub

SETTINGS = """
c.Cluster.jobs_ttl = 30
c.LDAPAuthenticator.refresh_patience = 4
c.SessionProxy.watch_interval = 5
c.Cluster.jobs_age = 30  # was never one
"""


def test_a_hub_with_former_settings_starts_and_warns_once_of_each(demo: Any) -> None:
    with other_hub(demo, SETTINGS) as (_, place):
        log = (place.parent / "log").read_text()
    for name in (
        "Cluster.jobs_ttl",
        "LDAPAuthenticator.refresh_patience",
        "SessionProxy.watch_interval",
    ):
        assert log.count(f"c.{name} is fixed now, and its value is not used.") == 1, log
        assert f"`{name.partition('.')[2]}` not recognized" not in log
    assert "`jobs_age` not recognized by `Cluster`" in log
