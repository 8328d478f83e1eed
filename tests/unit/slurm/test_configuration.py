"""Settings of slurm.conf, as ``scontrol show config`` prints them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from portal.errors import SlurmUnavailable
from portal.slurm.commands.configuration import Configuration
from portal.slurm.commands.run import Output

LOG = logging.getLogger("portal-test")
# Slurm 22.05, shortened.
CONFIG = """Configuration data as of 2026-11-23T12:00:00
KillWait                = 30 sec
MaxArraySize            = 1001
ResumeTimeout           = 60 sec
SlurmUser               = slurm(64030)
"""
KNOWN = (1000, 60, 30)
UNKNOWN = (None, None, None)


class Scontrol:
    """Runner whose answer is ``text``; "" is an outage."""

    def __init__(self, text: str) -> None:
        self.text, self.asked = text, 0

    async def run(self, argv: Sequence[str], **_: Any) -> Output:
        assert tuple(argv) == ("scontrol", "show", "config")
        self.asked += 1
        if not self.text:
            raise SlurmUnavailable("slurmctld does not answer.")
        return Output(self.text, "", 0)


async def settings(scontrol: Any) -> tuple[int | None, int | None, int | None]:
    slurm = Configuration(scontrol, LOG)
    return await slurm.most_array_tasks(), await slurm.resume_seconds(), await slurm.kill_wait()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", KNOWN),
        ("= 30 sec", "= 30", KNOWN),
        ("= 60 sec", "= 60", KNOWN),
        ("= 1001", "= 1", (0, 60, 30)),
        ("= 1001", "= 0", (0, 60, 30)),  # arrays are off
        ("= 1001", "= (null)", (None, 60, 30)),
        ("= 60 sec", "= INFINITE", (1000, None, 30)),
        ("= 30 sec", "= N/A", (1000, 60, None)),
        ("= 30 sec", "= -1 sec", (1000, 60, None)),
        ("MaxArraySize", "Max", (None, 60, 30)),
        ("ResumeTimeout", "Resume", (1000, None, 30)),
        ("KillWait", "Kill", (1000, 60, None)),
        ("SlurmUser", "Nothing", UNKNOWN),  # no output of scontrol's
        (CONFIG, "", UNKNOWN),
    ],
)
async def test_what_slurm_tells_and_what_it_does_not(
    old: str, new: str, expected: tuple[int | None, ...]
) -> None:
    assert await settings(Scontrol(CONFIG.replace(old, new) if old else CONFIG)) == expected


async def test_all_are_asked_for_once() -> None:
    scontrol = Scontrol(CONFIG)
    assert await settings(scontrol) == KNOWN and scontrol.asked == 1
