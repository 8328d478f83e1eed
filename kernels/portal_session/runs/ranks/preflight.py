"""Checks of the nodes before a script's ranks start: one or two seconds, which save a job that
would only fail later. A node that is unfit is named and excluded, and the point starts again.

Nothing is measured: an all-reduce needs the script's own library (NCCL, Gloo, MPI), which this
program lacks, pairs of 64 nodes are 2,016, and a limit of their speed would exclude good nodes.
deploy/environments/starters/collectives.py measures that, as a run of an admin.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..disk import read_regular
from ..execution.outcome import EXCLUDES, WAITING, Outcome
from .layout import Layout
from .team import EXCLUDE, Team

MOST = 2  # times that a point starts again
_LEAST = 64 * 1024 * 1024  # bytes of temporary files that PyTorch, NCCL and MPI may need
_TRIAL = b"0" * 1024 * 1024
_SKEW = 30.0  # seconds between the clocks of two nodes
_LARGEST = 100_000


def node_problem() -> str:
    """Return why no rank should run on this node; "" if nothing is known. Blocks."""
    for folder in (Path(tempfile.gettempdir()), Path("/dev/shm")):  # noqa: S108
        try:
            if shutil.disk_usage(folder).free < _LEAST:
                return f"{folder} has less than {_LEAST // 1024**2} MiB free"
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".portal-rank-") as file:
                file.write(_TRIAL)
                file.flush()
        except OSError as error:
            return f"{folder} cannot be written: {error.strerror}"
    return ""


def unfit_nodes(
    here: Mapping[int, Mapping[str, Any]], over: Mapping[int, tuple[int, str]], layout: Layout
) -> dict[str, str]:
    """Return the nodes that are unfit, with the reason. ``here``: what each rank says that has
    started; ``over``: exit code and node of those whose program has ended."""
    unfit: dict[str, str] = {}
    nodes = {rank: str(about.get("node", "")) for rank, about in here.items()}
    for rank, (code, node) in over.items():
        if rank not in here:
            unfit.setdefault(node, f"the environment does not start there (exit code {code})")
    for rank, about in here.items():
        if problem := str(about.get("problem") or ""):
            unfit.setdefault(nodes[rank], problem)
    apart = {nodes[rank]: str(about["apart"]) for rank, about in here.items() if about.get("apart")}
    first = nodes.get(0, layout.node)
    if len(apart) > 1 and len(apart) == len({*nodes.values()} - {first}):
        unfit.setdefault(first, "no other node can connect to it")
    else:
        for node, why in apart.items():
            unfit.setdefault(node, f"it cannot connect to {first}: {why}")
    # Ahead of the file system's, whose own clock may be wrong.
    clocks = {
        nodes[rank]: float(about["skew"])
        for rank, about in here.items()
        if about.get("skew") is not None
    }
    inner = sorted(clocks.values(), key=abs)[: 1 if len(clocks) < 3 else None]
    middle = sorted(inner)[len(inner) // 2] if inner else 0.0
    for node, skew in clocks.items():
        if abs(skew - middle) > _SKEW:
            unfit.setdefault(node, f"its clock differs by {abs(skew - middle):.0f} s")
    unfit.pop("", None)
    return unfit


def refusal(
    here: Mapping[int, Mapping[str, Any]],
    over: Mapping[int, tuple[int, str]],
    team: Team,
    exclusions: Exclusions,
) -> Outcome | None:
    """Return the outcome of a point on unfit nodes, which it starts again without if there are
    others; None if all are fit. Raises OSError."""
    unfit = unfit_nodes(here, over, team.layout)
    if not unfit:
        return None
    words = exclusions.exclude(unfit, team)
    if words:
        return Outcome(WAITING, words, EXCLUDES)
    why = "" if team.layout.spare >= len(unfit) else " There is no other node to run on."
    if len(exclusions.read()) >= MOST:
        why = f" The point was started again {MOST} times."
    return Outcome.failed(f"{sentence(unfit)}{why}")


class Exclusions:
    """Nodes that were excluded from a point's job, by its attempts: a file beside their folders."""

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / f"{number:04d}.excluded"

    def read(self) -> list[dict[str, str]]:
        """Return the nodes of each attempt that has excluded some, with the reasons."""
        try:
            content = json.loads(read_regular(self._path, _LARGEST, own=True))
        except (OSError, ValueError):
            return []
        if not isinstance(content, list):
            return []
        return [of for of in content if isinstance(of, dict)]

    def exclude(self, unfit: Mapping[str, str], team: Team) -> str:
        """Exclude nodes, if there are others; return a sentence for the page if the point starts
        again, else "". Raises OSError."""
        earlier = self.read()
        layout = team.layout
        names = sorted({*unfit, *(node for of in earlier for node in of)})
        if len(earlier) >= MOST or len(unfit) > layout.spare:
            return ""
        with_these = [*earlier, dict(unfit)]
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        new.write_text(json.dumps(with_these))
        new.replace(self._path)
        (layout.place / EXCLUDE).write_text(f"{','.join(names)}\n")
        return (
            f"{sentence(unfit)} The point starts again without "
            f"{'it' if len(unfit) == 1 else 'them'} ({len(with_these)} of {MOST})."
        )

    @property
    def words(self) -> str:
        """Sentence about a point that has started again; "" for one that has not."""
        named = [f"{node} ({why})" for of in self.read() for node, why in of.items()]
        return f"Started again without {', '.join(named)}." if named else ""


def sentence(unfit: Mapping[str, str]) -> str:
    """Return a sentence that names unfit nodes."""
    return " ".join(f"{node} is unfit: {why}." for node, why in unfit.items())


def missing_words(ranks: Sequence[int]) -> str:
    """Return a list of ranks, for a sentence."""
    shown = ", ".join(map(str, ranks[:4]))
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {shown}{more}"
