"""Answer to "Why is my GPU waiting?", from an observation. No I/O.

A sentence says only what was measured, and the advice only what follows from it: if no cause
prevails, the answer is that it is not clear, with the shares.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from .blocked import COMPUTING, READING, RECEIVING, WRITING
from .observation import Observation, Program

BUSY = 80  # percent: GPUs that are used more do not wait
IDLE = 0.1  # mean number of active threads; below it, nothing runs
PREVAILS = 0.6  # share of the active time of a cause
ALL_CPUS = 0.85  # share of the CPUs in use that is as good as all
NO_CPU = 0.25  # share of the time in which what could compute has no CPU
ONE_THREAD = 0.8  # mean number of computing threads of a process that is alone with its work
IN_FOLDER = 0.8  # share of the files' time that is in the folder which is named
SMALL = 256 * 1024  # bytes: median size of files that are worth packing
FEWEST = 20  # files of which a median is taken
_WORDS = {
    COMPUTING: "computing",
    READING: "waiting for reads",
    WRITING: "waiting for writes",
    RECEIVING: "waiting for the network",
}
_REMOTE = ("nfs", "nfs4", "lustre", "beegfs", "ceph", "gpfs", "cifs", "smb3", "pvfs2", "fuse")


class Answer(NamedTuple):
    """Answer: its ``cause`` (gpu, cpu, thread, reads, writes, network, idle or unclear), sentence
    and advice, either of which may be ""; ``folder``: the one that is slow; ``pack``: it is worth
    packing."""

    cause: str
    sentence: str
    advice: str = ""
    folder: str = ""
    pack: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return self._asdict()


def answer_of(seen: Observation, home: str = "", mounts: Mapping[str, str] | None = None) -> Answer:
    """Return the answer. ``mounts``: the kind of file system by mount point."""
    seconds = f"{seen.seconds:.0f} s"
    if seen.gpu is not None and seen.gpu >= BUSY:
        return Answer(
            "gpu", f"The GPU does not wait: its use was {_percent(seen.gpu / 100)} in {seconds}."
        )
    totals = {kind: seen.total(kind) for kind in _WORDS}
    active = sum(totals.values())
    if active < IDLE:
        return Answer(
            "idle",
            f"{_gpu(seen)}In {seconds}, the programs of this session did next to nothing: they "
            "waited for input, for each other or for a job on another node.",
            "Ask while your training runs in this session.",
        )
    cause = max(totals, key=lambda kind: totals[kind])
    share = totals[cause] / active
    if share < PREVAILS:
        return _unclear(seen, totals, active)
    if cause == COMPUTING:
        return _computing(seen, totals, active)
    answer = {READING: _reading, WRITING: _writing, RECEIVING: _network}[cause]
    return answer(seen, share, home, mounts or {})


def _reading(seen: Observation, share: float, home: str, mounts: Mapping[str, str]) -> Answer:
    folder, in_folder = folder_of(seen.read_from)
    doing = [program for program in seen.programs if program.threads.get(READING, 0.0) >= 0.05]
    reads, read = sum(each.reads for each in doing), sum(each.read for each in doing)
    rates = f"{_count(reads)} reads a second, {_bytes(read)}/s"
    where = _where(folder, in_folder, seen.read_from, home, mounts)
    sentence = (
        f"{_gpu(seen)}{_who(doing)} spent {_percent(share)} of the active time waiting for reads "
        f"{where}: {rates}."
    )
    if not folder:
        return Answer("reads", sentence)
    size = median(seen.sizes) if len(seen.sizes) >= FEWEST else None
    if size is not None and size <= SMALL:
        advice = (
            f"Its files are small (median of {len(seen.sizes)}: {_bytes(size)}). Pack the folder: "
            "one image is read in large pieces."
        )
        return Answer("reads", sentence, advice, folder, pack=True)
    remote = _remote(folder, mounts)
    advice = "Copy it to the node's own disk ($TMPDIR) at the start." if remote else ""
    return Answer("reads", sentence, advice, folder)


def _writing(seen: Observation, share: float, home: str, mounts: Mapping[str, str]) -> Answer:
    folder, in_folder = folder_of(seen.written_to)
    doing = [program for program in seen.programs if program.threads.get(WRITING, 0.0) >= 0.05]
    sentence = (
        f"{_gpu(seen)}{_who(doing)} spent {_percent(share)} of the active time waiting for writes "
        f"{_where(folder, in_folder, seen.written_to, home, mounts, 'to')}."
    )
    return Answer(
        "writes", sentence, "Write less often, or to the node's own disk ($TMPDIR).", folder
    )


def _network(seen: Observation, share: float, home: str, mounts: Mapping[str, str]) -> Answer:
    doing = [program for program in seen.programs if program.threads.get(RECEIVING, 0.0) >= 0.05]
    total = sum(seen.peers.values())
    most = [peer for peer, weight in _most(seen.peers, 3) if weight >= 0.1 * total]
    more = len(seen.peers) - len(most)
    peers = ", ".join(most) + (f" and {more} more" if more else "")
    sentence = (
        f"{_gpu(seen)}{_who(doing)} spent {_percent(share)} of the active time waiting for network "
        f"connections to {peers} ({_bytes(seen.received)}/s received)."
    )
    return Answer(
        "network",
        sentence,
        "Fetch what is read again once, into a folder, or from several threads.",
    )


def _computing(seen: Observation, totals: dict[str, float], active: float) -> Answer:
    doing = [program for program in seen.programs if program.threads.get(COMPUTING, 0.0) >= 0.05]
    used = sum(program.cpu for program in doing)
    waits = [
        program.ready for program in doing if program.ready is not None and program.cpu >= 0.05
    ]
    ready = max(waits, default=0.0)
    of_cpus = f"{_number(used)} of {seen.cpus} CPU{'s' * (seen.cpus != 1)}"
    if used >= ALL_CPUS * seen.cpus and (len(doing) > 1 or seen.cpus == 1 or ready >= NO_CPU):
        verb, were = ("computes", "was") if len(doing) == 1 else ("compute", "were")
        no_cpu = f", and {were} ready without a CPU for {_percent(ready)} of that time"
        return Answer(
            "cpu",
            f"{_gpu(seen)}{_who(doing)} {verb} all the time: {of_cpus} in use"
            f"{no_cpu if ready >= 0.05 else ''}.",
            "Ask for more CPUs, or do the same work for each item once, before the training.",
        )
    if ready >= NO_CPU:
        return Answer(
            "cpu",
            f"{_gpu(seen)}{_who(doing)} {'was' if len(doing) == 1 else 'were'} ready without a CPU "
            f"for {_percent(ready)} of the time, with {of_cpus} in use: the node's CPUs are busy.",
            "Ask for more CPUs, or start fewer threads.",
        )
    first = max(doing, key=lambda program: program.threads.get(COMPUTING, 0.0))
    others = totals[COMPUTING] - first.threads.get(COMPUTING, 0.0)
    alone = ONE_THREAD <= first.threads.get(COMPUTING, 0.0) <= 2 - ONE_THREAD and others < 0.5
    if alone and seen.cpus > 1:
        free = max(1, seen.cpus - round(used))
        return Answer(
            "thread",
            f"{_gpu(seen)}A single thread of {first.name} (process {first.number}) computed for "
            f"{_percent(min(1.0, first.threads.get(COMPUTING, 0.0)))} of the time, while {free} of "
            f"{seen.cpus} CPUs were free.",
            f"Let several processes prepare the data: DataLoader(num_workers={free}) in PyTorch, "
            f"num_parallel_calls in TensorFlow.",
        )
    return _unclear(seen, totals, active, f" {of_cpus} were in use.")


def _unclear(seen: Observation, totals: dict[str, float], active: float, more: str = "") -> Answer:
    order = sorted(totals, key=lambda kind: -totals[kind])
    shares = [f"{_percent(totals[kind] / active)} {_WORDS[kind]}" for kind in order if totals[kind]]
    return Answer(
        "unclear",
        f"Not clear. {_gpu(seen)}Of the active time of {len(seen.programs)} "
        f"program{'s' * (len(seen.programs) != 1)} in {seen.seconds:.0f} s: "
        f"{', '.join(shares)}.{more}",
    )


def folder_of(files: Mapping[str, float]) -> tuple[str, float]:
    """Return the deepest folder with most of the files' weight, and its share; "" if there is none
    below the first level."""
    total = sum(files.values())
    folder, share = Path("/"), 0.0
    while total:
        below: dict[str, float] = defaultdict(float)
        for path, weight in files.items():
            parents = Path(path).parts[:-1] if path else ()
            if parents[: len(folder.parts)] == folder.parts and len(parents) > len(folder.parts):
                below[parents[len(folder.parts)]] += weight
        if not below:
            break
        [(name, weight)] = _most(below, 1)
        if weight < IN_FOLDER * total:
            break
        folder, share = folder / name, weight / total
    return (str(folder), share) if len(folder.parts) > 2 else ("", 0.0)


def _where(
    folder: str,
    share: float,
    files: Mapping[str, float],
    home: str,
    mounts: Mapping[str, str],
    word: str = "from",
) -> str:
    if folder:
        kind = _kind(folder, mounts)
        return f"{word} {_short(folder, home)}" + (f" ({kind})" if kind else "")
    total, unnamed = sum(files.values()), files.get("", 0.0)
    if unnamed >= IN_FOLDER * total:
        return f"{word} files that are mapped into memory or cannot be named"
    several: dict[str, float] = defaultdict(float)
    for path, weight in files.items():
        several[str(Path(path).parent) if path else ""] += weight
    named = [
        f"{_short(path, home)} {_percent(weight / total)}"
        for path, weight in _most(several, 3)
        if path
    ]
    return f"{word} several folders ({', '.join(named)})"


def _remote(folder: str, mounts: Mapping[str, str]) -> bool:
    return _kind(folder, mounts).startswith(_REMOTE)


def _kind(folder: str, mounts: Mapping[str, str]) -> str:
    """Return the kind of file system that holds a folder."""
    own = [place for place in mounts if Path(folder).is_relative_to(place)]
    return mounts[max(own, key=len)] if own else ""


def _most(weights: Mapping[str, float], count: int) -> list[tuple[str, float]]:
    return sorted(weights.items(), key=lambda item: -item[1])[:count]


def _who(doing: list[Program]) -> str:
    """Return whose time it is: "Your 4 processes (python train.py)"."""
    names = Counter(program.name for program in doing if program.name)
    name = names.most_common(1)[0][0] if names else ""
    if len(doing) == 1:
        return f"{name[:1].upper()}{name[1:]} (process {doing[0].number})"
    same = f" ({name})" if len(names) == 1 else f" ({name} and others)" if name else ""
    return f"Your {len(doing)} processes{same}"


def _gpu(seen: Observation) -> str:
    return "" if seen.gpu is None else f"GPU use: {_percent(seen.gpu / 100)}. "


def _short(folder: str, home: str) -> str:
    path = Path(folder)
    if home and path.is_relative_to(home):
        below = str(path.relative_to(home))
        return "~" if below == "." else f"~/{below}"
    return folder


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"


def _count(number: float) -> str:
    return f"{round(number):,}" if number >= 10 else f"{number:.1f}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _bytes(size: float) -> str:
    """Return a size as "11 kB" or "3.1 MB", in powers of 1000 as disks and networks have them."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.1f} {unit}" if size < 10 and unit != "B" else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
