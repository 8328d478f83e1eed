"""Rows of figures: build/bench.json, and the tables in the terminal and the documents."""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path

_HEADINGS = ("what", "portal", "peer", "floor", "goal", "met")
_START, _END = "<!-- bench:start -->", "<!-- bench:end -->"


@dataclass
class Row:
    """Row of a figure. ``value``: ours, in ``unit``; None if it could not be measured (``reason``).

    ``peer``: another program that does the same, ``peer_value``: its figure in the same run;
    ``floor_value``: cost of the underlying parts alone. ``goal``: in words; ``met``: True if it was
    reached; both None if there is no goal.
    """

    name: str
    value: float | None
    unit: str
    peer: str = ""
    peer_value: float | None = None
    floor_value: float | None = None
    goal: str | None = None
    met: bool | None = None
    reason: str = ""
    machine: str = ""

    def cells(self) -> list[str]:
        """Return the cells of the row, one per heading."""
        peer = f"{_number(self.peer_value)} ({self.peer})" if self.peer_value is not None else "—"
        value = f"not measured: {self.reason}" if self.value is None else _number(self.value)
        unit = f" {self.unit}" if self.value is not None and self.unit else ""
        met = {True: "yes", False: "no", None: "—"}[self.met]
        return [self.name, value + unit, peer, _number(self.floor_value), self.goal or "—", met]


def _number(value: float | None) -> str:
    if value is None:
        return "—"
    if isinstance(value, int) or value == int(value):
        return str(int(value))
    return (
        f"{value:.0f}"
        if abs(value) >= 100
        else f"{value:.2f}"
        if abs(value) < 10
        else f"{value:.1f}"
    )


def this_machine() -> str:
    """Describe the machine: processors, memory, system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"(?m)^model name\s*: (.*)$", cpuinfo.read_text())
        model = f" ({match[1].strip()})" if match else ""
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    return f"{os.cpu_count()} CPUs{model}, {memory:.0f} GiB, {system}"


def write(rows: list[Row], path: Path) -> None:
    """Write build/bench.json; rows measured elsewhere keep their ``machine``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = this_machine()
    for row in rows:
        row.machine = row.machine or machine
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> list[Row]:
    """Return the rows of build/bench.json; none if there is no such file."""
    return [Row(**row) for row in json.loads(path.read_text())] if path.exists() else []


def table(rows: list[Row]) -> str:
    """Format the rows for a terminal, in columns."""
    cells = [list(_HEADINGS), *(row.cells() for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(_HEADINGS))]
    lines = [
        "  ".join(f"{word:<{width}}" for word, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown(rows: list[Row]) -> str:
    """Format the rows for a document, with the command and the machine."""
    lines = [f"| {' | '.join(_HEADINGS)} |", "|" + " --- |" * len(_HEADINGS)]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    machines = " / ".join(dict.fromkeys(row.machine for row in rows if row.machine))
    return "\n".join([*lines, "", f"Measured with `make bench` on: {machines}."])


def put_into_document(rows: list[Row], document: Path) -> bool:
    """Replace the text between the two markers; return False if they are missing."""
    text = document.read_text()
    before, start, rest = text.partition(_START)
    _, end, after = rest.partition(_END)
    if not start or not end:
        return False
    document.write_text(f"{before}{start}\n{markdown(rows)}\n{end}{after}")
    return True
