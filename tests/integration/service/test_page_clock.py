"""The time that pages count ages by (static/js/api.js), as a browser would run it: in Node, with
clocks that the test sets."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from portal.paths import data_path

# ``wall`` and ``up`` are the page's clocks, in milliseconds; ``service`` the service's, in seconds.
PAGE = """
let wall = 5_000_000_000_000, up = 2_000, service = 1_800_000_000;
const facts = { now: service, scopes: [], prefix: "/", xsrf: "" };
globalThis.document = { getElementById: () => ({ textContent: JSON.stringify(facts) }) };
globalThis.window = { location: { origin: "http://x" } };
Object.defineProperty(globalThis, "performance", { value: {
  now: () => up, timeOrigin: wall, getEntriesByType: () => [{ responseStart: up }],
} });
Date.now = () => wall;
let dated = true;
globalThis.fetch = async () => new Response("{}", {
  headers: dated ? { date: new Date(service * 1000).toUTCString() } : {},
});
const { call, now } = await import(process.argv[2]);
const passes = (s) => { wall += s * 1000; up += s * 1000; service += s; };
const told = [];
// How much later a page takes it to be than the service.
const note = () => told.push(Math.round((now() - service) * 10) / 10);
note();
"""


def run(tmp_path: Path, steps: str) -> list[float]:
    node = shutil.which("node")
    assert node, "node is missing (deploy/packages-run.txt)"
    script, module = tmp_path / "page.mjs", tmp_path / "api.mjs"
    module.write_text((Path(data_path("static")) / "js/api.js").read_text())
    script.write_text(f"{PAGE}\n{steps}\nconsole.log(JSON.stringify(told));")
    out = subprocess.run(
        [node, str(script), str(module)], capture_output=True, text=True, timeout=120, check=False
    )
    assert out.returncode == 0, out.stderr
    found: Any = json.loads(out.stdout)
    return list(found)


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_laptops_clock_that_is_set_changes_no_age(tmp_path: Path, step: int) -> None:
    told = run(
        tmp_path,
        f"passes(7); note(); wall += {step * 1000}; note(); passes(60); note();"
        "await call('x'); note(); passes(60); note();",
    )
    assert told == [0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_services_clock_that_is_set_is_followed_with_its_next_answer(
    tmp_path: Path, step: int
) -> None:
    told = run(tmp_path, f"service += {step}; note(); await call('x'); note(); passes(9); note();")
    assert told == [0, -step, 0, 0]


def test_a_laptop_that_slept_goes_by_the_next_answer(tmp_path: Path) -> None:
    """Stop performance.now() for five minutes."""
    told = run(
        tmp_path,
        "wall += 300_000; service += 300; note(); await call('x'); note(); passes(9); note();",
    )
    assert told == [0, -300, 0, 0]


def test_answers_that_are_late_or_say_no_time_change_nothing(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        "passes(0.7); await call('x'); note(); service -= 20; await call('x'); note();"
        "service += 20; dated = false; wall += 3_600_000; await call('x'); note();",
    )
    assert told == [0, 0, 20, 0]
