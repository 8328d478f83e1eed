"""Conditions of a project's run, which its first point reports: a repetition elsewhere is compared
with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...measurements.gpus import inventory
from ...measurements.gpus.programs import program_output
from .drift import gpus_in_words

_LARGEST = 30_000  # bytes of the packages, of the 64 kB of a report
_LONGEST = 200  # characters
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def conditions_of(
    facts: Mapping[str, Any], plan: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the conditions in a point's manifest (``facts``) and its run's ``plan``, as the portal
    takes them; those that are not known are "". Blocks for some seconds; raises nothing."""
    python = facts.get("python") or {}
    packages = [_line(item) for item in python.get("packages") or () if item]
    if len(packages) > 3_000 or len(json.dumps(packages)) > _LARGEST:
        packages = []
    git = plan.get("git") or {}
    commit, image = str(git.get("commit") or ""), str(facts.get("image_digest") or "")
    gpus, driver = gpus_in_words(facts), ""
    if gpus not in ("", "none"):
        driver = str(inventory(environ, lambda argv: program_output(argv, environ)).get("driver"))
    slurm = program_output(["scontrol", "--version"], environ).split()
    return {
        "conditions": {
            "script": f"sha256:{facts['source']['sha256']}",
            "image": image if _DIGEST.fullmatch(image) else "",
            "kernel": _line(facts.get("kernel") or ""),
            "gpus": _line(gpus),
            "driver": _line(driver),
            "slurm": _line(slurm[-1] if slurm else ""),
            "commit": commit if _COMMIT.fullmatch(commit) else "",
            "differs": bool(git.get("dirty")),
        },
        "software": {"python": _line(python.get("version") or ""), "packages": packages},
    }


def _line(value: Any) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(value))[:_LONGEST]
