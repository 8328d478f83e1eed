"""Nodes of the demo's Slurm, and reasons that an admin could give for draining a node."""

from __future__ import annotations

from typing import Any

HOSTILE_REASONS = [
    "two\nlines",
    "carriage\rreturn",
    "nul\0",
    "escape \x1b[31m",
    "right to left \u202e",
    "zero\u200bwidth",
    '"quoted"',
    "line\u2028separator",
]
PLAIN_REASONS = [
    "fan 3 doesn't turn; $(reboot) `id` State=IDLE NodeName=ALL \\ [x] 100% #1",
    "Lüfter kaputt, 风扇坏了",
]


def set_level(demo: Any, level: str) -> None:
    command = ["sacctmgr", "-i", "modify", "user", "portal", "set", f"adminlevel={level}"]
    if demo.people:
        demo.run(command, user="slurm")


def reason_of(demo: Any, node: str) -> str:
    return str(demo.run(["sinfo", "-h", "-n", node, "-o", "%200E"]).stdout.splitlines()[0].strip())
