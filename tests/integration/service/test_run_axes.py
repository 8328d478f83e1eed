"""Axes of parallel coordinates (static/js/run/axes.js), as a browser would run them: in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from portal.paths import data_path

AXES = Path(data_path("static")) / "js/run/axes.js"
VALUES = {
    "parameters": ["lr", "kind", "same"],
    "metrics": ["loss", "flat"],
    "items": [
        {"number": 0, "parameters": [0.1, "sgd", 1], "metrics": [2.0, 7.0]},
        {"number": 1, "parameters": [0.001, "adam", 1], "metrics": [-1.0, 7.0]},
        {"number": 2, "parameters": [None, True, 1], "metrics": [None, 7.0]},
    ],
}


def evaluated(tmp_path: Path, expression: str) -> Any:
    """Value of an expression that uses ``axis``, ``axesOf``, ``short`` and VALUES."""
    node = shutil.which("node")
    assert node, "node is missing (deploy/packages-run.txt)"
    module, script = tmp_path / "axes.mjs", tmp_path / "page.mjs"
    module.write_text(AXES.read_text())
    script.write_text(
        f"import {{ axis, axesOf, short }} from {json.dumps(str(module))};\n"
        f"const VALUES = {json.dumps(VALUES)};\n"
        f"console.log(JSON.stringify({expression}));"
    )
    out = subprocess.run(
        [node, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def test_what_differs_has_an_axis(tmp_path: Path) -> None:
    names = "axesOf(VALUES, 8, 'loss').map((axis) => [axis.kind, axis.name, axis.index])"
    assert evaluated(tmp_path, names) == [
        ["parameters", "lr", 0],
        ["parameters", "kind", 1],
        ["metrics", "loss", 0],
    ]


def test_the_chosen_metric_has_an_axis(tmp_path: Path) -> None:
    items = [{"parameters": [], "metrics": [number] * 3} for number in (1, 2)]
    many = json.dumps({"parameters": [], "metrics": ["a", "b", "c"], "items": items})
    names = f"axesOf({many}, 1, 'c').map((axis) => axis.name)"
    assert evaluated(tmp_path, names) == ["a", "c"]


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([2, 4, 3, None], [0, 1, 0.5, None]),
        ([1e-4, 1e-2, 1], [0, 0.5, 1]),  # logarithmic
        ([-1, 1000], [0, 1]),
        ([5, 5], [0.5, 0.5]),
        (["10", "9", None], [1, 0, None]),
        ([True, False, "x"], [0.5, 0, 1]),
        ([1, "1"], [0.5, 0.5]),
        ([None], [None]),
    ],
)
def test_the_place_of_a_value(tmp_path: Path, values: list[Any], places: list[Any]) -> None:
    given = json.dumps(values)
    found = evaluated(tmp_path, f"{given}.map(axis('a', {given}).at)")
    assert found == [place if place is None else pytest.approx(place) for place in places]


def test_marks_are_short(tmp_path: Path) -> None:
    numbers = [0, 0.1 + 0.2, 1234567.8, 1e-7, -12345]
    found = evaluated(tmp_path, f"{json.dumps(numbers)}.map(short)")
    assert found == ["0", "0.3", "1.2e6", "1.0e-7", "-12,350"]
