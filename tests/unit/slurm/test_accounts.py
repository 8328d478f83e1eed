"""Who may charge what, as sacctmgr tells it; and a refusal to tell is no word about the person."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from portal.errors import SlurmUnavailable
from portal.models.cluster.cluster import Association
from portal.slurm.commands.errors import error_of
from portal.slurm.commands.run import Output
from portal.slurm.watch.accounts import Accounts
from portal.slurm.watch.private_data import PrivateData

RECORDED = Path(__file__).parents[2] / "slurm_outputs/22.05"
PRIVATE = (RECORDED / "private-configuration.txt").read_text()
REFUSED = (RECORDED / "private-account.stderr").read_text()
ADA = (RECORDED / "sacctmgr-ada.txt").read_text()
# slurmdbd to which MariaDB says "Access denied", which is in its own log alone: its account had
# gone from /etc/passwd. Slurm 22.05.
NO_DATABASE = (
    "sacctmgr: error: slurm_persist_conn_open: Something happened with the receiving/processing "
    "of the persistent connection init message to 127.0.0.1:6819: Unable to connect to database\n"
    "sacctmgr: error: Sending PersistInit msg: Unable to connect to database\n"
)


class Sacctmgr:
    """Answers the portal's three questions; an answer is an output or what sacctmgr complains."""

    def __init__(self, users: str = "", config: str = PRIVATE, level: str = "portal|None") -> None:
        self.users, self.config, self.level, self.complaint = users, config, level, ""
        self.asked: list[str] = []

    async def run(self, argv: Sequence[str], **_: Any) -> Output:
        await asyncio.sleep(0)
        about = "config" if "configuration" in argv else "users" if "withassoc" in argv else "level"
        self.asked.append(about)
        if self.complaint and about == "users":
            raise error_of("sacctmgr", self.complaint, 1, None)
        return Output(
            {"config": self.config, "users": self.users, "level": self.level}[about], "", 0
        )


@pytest.fixture(autouse=True)
def as_portal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.slurm.watch.private_data.own_account", lambda: (6100, "portal"))


def accounts(slurm: Any, ttl: float = 60) -> Accounts:
    return Accounts(slurm, lambda: ttl)


async def test_an_empty_answer_to_who_may_not_see_others_says_nothing_of_them() -> None:
    slurm = Sacctmgr()
    with pytest.raises(SlurmUnavailable, match=r"PrivateData=users in slurmdbd\.conf"):
        await accounts(slurm).of_user("ada")


@pytest.mark.parametrize(
    ("config", "level"),
    [
        (PRIVATE, "portal|Operator"),
        (PRIVATE, "portal|Administrator"),
        (PRIVATE.replace("SlurmUser              = root(0)", "SlurmUser = portal(6100)"), ""),
        (PRIVATE.replace("accounts,users", "accounts,jobs"), "portal|None"),
        (PRIVATE.replace("accounts,users", "none"), "portal|None"),
        ("nothing that is known", "portal|None"),
    ],
)
async def test_an_empty_answer_to_who_sees_all_is_nobody(config: str, level: str) -> None:
    assert await accounts(Sacctmgr(config=config, level=level)).of_user("nobody") == ()


async def test_a_slurmdbd_that_does_not_know_the_portal_hides_everyone() -> None:
    with pytest.raises(SlurmUnavailable, match="PrivateData"):
        await accounts(Sacctmgr(level="")).of_user("ada")


async def test_whoever_has_rows_costs_no_more_questions_and_a_class_without_costs_two() -> None:
    slurm = Sacctmgr(ADA)
    assert await accounts(slurm).of_user("ada") and slurm.asked == ["users"]
    slurm = Sacctmgr(level="portal|Operator")
    of = accounts(slurm).of_user
    assert await asyncio.gather(*(of(f"student{n}") for n in range(300))) == [()] * 300
    assert slurm.asked == ["users", "config", "level"]


@pytest.mark.parametrize(
    ("complaint", "words"), [(REFUSED, "permission denied"), (NO_DATABASE, "does not answer")]
)
async def test_a_refusal_is_no_answer_and_the_last_answer_stays(complaint: str, words: str) -> None:
    slurm = Sacctmgr(ADA)
    kept = accounts(slurm, ttl=0)
    known = await kept.of_user("ada")
    assert isinstance(known, tuple) and isinstance(known[0], Association)
    slurm.complaint = complaint
    assert await kept.of_user("ada") == known
    with pytest.raises(SlurmUnavailable, match=words):
        await kept.of_user("barbara")
    slurm.complaint, slurm.users = "", ""
    assert await kept.of_user("ada") == known, "hidden from one moment on"


async def test_a_refusal_to_tell_of_an_account_is_no_answer() -> None:
    slurm = Sacctmgr()

    async def refuse(argv: Sequence[str], **_: Any) -> Output:
        raise error_of("sacctmgr", REFUSED, 1, None)

    slurm.run = refuse  # type: ignore[method-assign]
    with pytest.raises(SlurmUnavailable, match="permission denied"):
        await accounts(slurm).exists("research")


async def test_root_sees_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.slurm.watch.private_data.own_account", lambda: (0, "root"))
    assert await PrivateData(Sacctmgr(), lambda: 0).hidden() == frozenset()  # type: ignore[arg-type]
