"""Limits of accounts on TRES minutes, from what slurmctld prints."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from portal.errors import InvalidRequest, SlurmUnavailable
from portal.models.cluster.account_limits import TresLimit
from portal.slurm.commands.configuration import Configuration
from portal.slurm.commands.run import Output
from portal.slurm.parse.association_limits import account_rows
from portal.slurm.watch.account_limits import AccountLimitsWatch

_HEAD = "Current Association Manager state\n\nAssociation Records\n\n"


def line(account: str, parent: str, minutes: str, user: str = "") -> str:
    """Return a record as Slurm 22.05 prints it, shortened."""
    return (
        f"ClusterName=demo Account={account} UserName={user} Partition= Priority=0 ID=5 "
        f"SharesRaw/Norm/Level/Factor=1/0.50/2/0.00 ParentAccount={parent} Lft=2 DefAssoc=No "
        f"GrpTRES=cpu=N(2),gres/gpu=8(1) GrpTRESMins={minutes} GrpTRESRunMins=cpu=N(60) "
        "MaxTRESPJ= MaxTRESPN= MinPrioThresh= \n"
    )


class Runner:
    """Runner that knows Slurm's answers by account."""

    def __init__(self, rows: Mapping[str, str], config: str = "") -> None:
        self.rows = dict(rows)
        self.config = config or "AccountingStorageEnforce = associations,limits\n"
        self.asked: list[str] = []

    async def run(self, argv: Sequence[str], **_: Any) -> Output:
        if argv[-1] == "config":
            return Output(f"SlurmUser = slurm(1)\n{self.config}", "", 0)
        name = argv[-2].removeprefix("accounts=")
        self.asked.append(name)
        return Output(_HEAD + self.rows.get(name, ""), "", 0)


def watch(runner: Any, spent: list[float] | None = None) -> AccountLimitsWatch:
    log = logging.getLogger("limits")
    costs: list[float] = [] if spent is None else spent
    return AccountLimitsWatch(runner, Configuration(runner, log), costs.append)


def test_records_of_accounts() -> None:
    text = _HEAD + line("bio", "root(1)", "cpu=N(90),gres/gpu=600(75),gres/gpu:v100=60(0)")
    text += line("bio", "", "cpu=10(1)", user="ada(1001)")
    rows = account_rows(text)
    assert rows["bio"].parent == "root"
    assert rows["bio"].limits == (
        TresLimit(account="bio", tres="gres/gpu", limit=600, used=75),
        TresLimit(account="bio", tres="gres/gpu:v100", limit=60, used=0),
    )
    assert account_rows(_HEAD) == {}
    with pytest.raises(ValueError, match="limits of an association"):
        account_rows("ClusterName=demo Account=bio UserName=\n")


async def test_the_accounts_above_count_too() -> None:
    rows = {
        "bio": line("bio", "science(2)", "gres/gpu=600(75)"),
        "science": line("science", "root(1)", "cpu=6000(6001)"),
        "root": line("root", "", "cpu=N(7000)"),
    }
    spent: list[float] = []
    runner = Runner(rows, "AccountingStorageEnforce = associations,safe\n"
        "PriorityDecayHalfLife = 7-00:00:00\nPriorityUsageResetPeriod = MONTHLY\n")  # fmt: skip
    limits = watch(runner, spent)
    answer = await limits.of_account("Bio")
    assert answer.last is not None and answer.error is None
    assert [(one.account, one.tres, one.limit, one.used) for one in answer.last.limits] == [
        ("bio", "gres/gpu", 600, 75),
        ("science", "cpu", 6000, 6001),
    ]
    assert (answer.last.enforced, answer.last.half_life, answer.last.resets) == (
        True,
        7 * 86400,
        "MONTHLY",
    )
    assert runner.asked == ["bio", "science", "root"]
    assert spent == [1, 1, 1]
    await limits.of_account("bio")
    assert len(runner.asked) == 3  # cached


@pytest.mark.parametrize(
    "config, enforced, half_life, resets",
    [
        ("AccountingStorageEnforce = none\nPriorityDecayHalfLife = 00:00:00\n", False, None, ""),
        ("AccountingStorageEnforce = associations,limits,qos\n", True, None, ""),
        ("PriorityUsageResetPeriod = NONE\n", None, None, ""),
    ],
)
async def test_how_limits_are_enforced(
    config: str, enforced: bool | None, half_life: float | None, resets: str
) -> None:
    rows = {"root": line("root", "", "cpu=N(1)")}
    limits = (await watch(Runner(rows, config)).of_account("root")).last
    assert limits is not None
    assert (limits.enforced, limits.half_life, limits.resets) == (enforced, half_life, resets)


async def test_a_slurm_that_does_not_answer_is_no_account_without_limits() -> None:
    with pytest.raises(SlurmUnavailable, match="does not show the portal the account 'bio'"):
        await watch(Runner({})).of_account("bio")
    runner = Runner({"bio": line("bio", "science(2)", "cpu=N(1)")})
    with pytest.raises(SlurmUnavailable, match="account 'science'"):
        await watch(runner).of_account("bio")
    with pytest.raises(InvalidRequest, match="not the name of a Slurm account"):
        await watch(runner).of_account("bio,root flags=users")
    assert runner.asked == ["bio", "science"]


async def test_accounts_in_a_circle_end() -> None:
    rows = {"a": line("a", "b(1)", "cpu=N(1)"), "b": line("b", "a(1)", "cpu=9(1)")}
    runner = Runner(rows)
    answer = await watch(runner).of_account("a")
    assert answer.last is not None and len(runner.asked) == 12
