"""Who may charge what, where the demo's slurmdbd does not tell that to the portal's account."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import demo_place
from nodes import set_level

UNKNOWN = 54321  # a uid that no account has

# Runs in the demo as the portal's account: what slurmdbd says depends on who asks.
DRIVER = """
import asyncio, json, sys
from portal.errors import PortalError
from portal.slurm import Cluster

async def main():
    cluster = Cluster()
    for question, name in (("associations", "ada"), ("has_account", "research")):
        try:
            found = await getattr(cluster, question)(name)
            answer = found if isinstance(found, bool) else [one.account for one in found]
        except PortalError as error:
            answer = {"code": error.code, "message": error.message}
        print(json.dumps(answer))
    cluster.close()

asyncio.run(main())
"""


def asked(demo: Any, *prefix: str) -> list[Any]:
    """What the portal's account is told of Ada's accounts, and of the account "research"."""
    said = demo.run(
        [*prefix, sys.executable, "-c", DRIVER],
        user=None if prefix else "portal",
        env={"PYTHONPATH": str(demo_place())},
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


@pytest.fixture
def private(slurm_cluster: Any) -> Iterator[Any]:
    """The demo with PrivateData in slurmdbd.conf, as many sites have it."""
    if not slurm_cluster.people:
        pytest.skip("in the one-account form the portal's account is SlurmUser")
    settings = slurm_cluster.home.demo / "slurm/etc/slurmdbd.conf"
    before = settings.read_text()
    settings.write_text(f"{before}PrivateData=accounts,jobs,users\n")
    set_level(slurm_cluster, "Operator")
    slurm_cluster.run(["sacctmgr", "-i", "reconfigure"], user="slurm")
    try:
        yield slurm_cluster
    finally:
        settings.write_text(before)
        set_level(slurm_cluster, "Administrator")
        slurm_cluster.run(["sacctmgr", "-i", "reconfigure"], user="slurm")


def test_an_operator_is_told(private: Any) -> None:
    assert asked(private) == [["research"], True]


def test_who_is_told_nothing_does_not_say_that_there_is_nobody(private: Any) -> None:
    set_level(private, "None")
    try:
        people, account = asked(private)
    finally:
        set_level(private, "Operator")
    assert people["code"] == account["code"] == "slurm_unavailable"
    assert "PrivateData=users in slurmdbd.conf" in people["message"]
    assert "permission denied" in account["message"]


def test_a_slurmdbd_that_does_not_know_the_portals_uid_is_no_answer_either(private: Any) -> None:
    me = ["setpriv", f"--reuid={UNKNOWN}", f"--regid={UNKNOWN}", "--clear-groups"]
    people, account = asked(private, *me)
    assert people["code"] == account["code"] == "slurm_unavailable", (people, account)
    assert "PrivateData=users in slurmdbd.conf" in people["message"]
