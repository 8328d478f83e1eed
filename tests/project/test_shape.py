"""Shape of the product: what is reached is kept. Lower a number here when it is lower."""

from __future__ import annotations

from .shape import ROOT, derivations, measures, naming_courses

# Where a kind is derived from a name: requests for a server, and what earlier versions stored.
_REQUESTS = {
    "portal/work/run/endpoints/reports.py",
    "portal/work/run/endpoints/runs.py",
    "portal/handlers/sessions/servers.py",
    "spawners/api/rooms.py",
    "spawners/config/named_servers.py",
    "spawners/lifecycle/orphans.py",
    "spawners/session.py",
    "spawners/web/hosts.py",
}
_EARLIER = {
    "portal/store/migrations/versions/v0019_work.py",
    "portal/store/migrations/work.py",
}


def test_a_kind_is_derived_from_the_name_of_a_requested_server_alone() -> None:
    assert {place.rpartition(":")[0] for place in derivations(ROOT)} == _REQUESTS | _EARLIER


def test_a_kind_has_no_twin_for_courses() -> None:
    assert measures(ROOT)["twins of kinds for courses"] == 0


def test_few_files_outside_of_courses_name_them() -> None:
    assert len(naming_courses(ROOT)) <= 40, naming_courses(ROOT)
