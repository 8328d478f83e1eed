"""Outputs of points as text: bounded, without a terminal's codes, around the cell that counts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs.live import rendering
from portal_session.runs.live.plain_text import newest_part, plain_text
from portal_session.runs.live.rendering import (
    LARGEST,
    LARGEST_LAST,
    log_rendering,
    notebook_rendering,
    output_text,
)

from portal.models.session.run_output import LARGEST as LARGEST_TAKEN
from portal.models.session.run_output import PointOutput


def code(source: Any, *outputs: Any) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": list(outputs)}


def printed(text: Any) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(**data: Any) -> dict[str, Any]:
    named = {name.replace("_", "/"): value for name, value in data.items()}
    return {"output_type": "display_data", "data": named, "metadata": {}}


def rendered(
    *cells: Any, at: int = 1, state: str = "running", largest: int = LARGEST
) -> dict[str, Any]:
    made = notebook_rendering({"cells": list(cells)}, at, state, largest)
    assert len(json.dumps(made)) <= largest
    PointOutput.model_validate(made)
    return made


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07on", "on"),
        ("10%\r50%\r100%\nnext", "100%\nnext"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("bell\x07 \u202eback", "bell\ufffd \ufffdback"),
        ("\ud800", "\ufffd"),
        ("\x1b[", "\ufffd["),
        ("a\tb", "a\tb"),
    ],
)
def test_plain_text(text: str, plain: str) -> None:
    assert plain_text(text) == plain


def test_plain_text_of_hostile_output_takes_no_time() -> None:
    began = time.process_time()
    for text in ("\r" * 60_000, "\x1b[" * 30_000, "\x1b]" * 30_000, "x" * 60_000 + "\r"):
        plain_text(text)
    assert time.process_time() - began < 10


def test_the_newest_part_begins_with_a_line() -> None:
    assert newest_part("first\nsecond\nthird", 10) == "third"
    assert newest_part("x" * 50, 10) == "x" * 10
    bar = "".join(f"\r{share:3}% ####" for share in range(101))
    assert newest_part(f"{bar}\n", 30) == "100% ####\n", "a progress bar is one long line"


def test_a_log_s_end(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    assert log_rendering(log, LARGEST) == {"log": "", "cut": False}
    log.write_text("on\n\x1b[32mgreen\x1b[0m\n")
    assert log_rendering(log, LARGEST) == {"log": "on\ngreen\n", "cut": False}
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(100_000)) + b"\xff")
    end = log_rendering(log, LARGEST)
    assert end["cut"] and end["log"].startswith("line 9") and end["log"].endswith("99999\n\ufffd")
    log.write_text("\u4e2d" * 100_000)
    for largest in (LARGEST, LARGEST_LAST):
        assert len(json.dumps(log_rendering(log, largest))) <= largest + 100


def test_the_log_of_a_progress_bar_ends_with_its_state(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("".join(f"\r{step:5} of 9999" for step in range(10_000)) + "\n")
    assert log_rendering(log, 4096) == {"log": " 9999 of 9999\n", "cut": True}


def test_the_states_of_cells() -> None:
    cells = (code("1"), {"cell_type": "markdown", "source": ["# A\n", "b"]}, code(""), code("2"),
             code("3"), {"cell_type": "raw", "source": "raw"})  # fmt: skip
    made = rendered(*cells, at=2, state="failed")
    assert [(cell["kind"], cell["cell"], cell["state"]) for cell in made["cells"]] == [
        ("code", 1, "done"),
        ("text", None, "done"),
        ("code", 2, "failed"),
        ("code", 3, "waiting"),
    ]
    assert made["cells"][1]["source"] == "# A\nb" and made["left_out"] == 0
    states = {cell["state"] for cell in rendered(*cells, at=3, state="succeeded")["cells"]}
    assert states == {"done"}
    assert {cell["state"] for cell in rendered(code("1"), at=0)["cells"]} == {"waiting"}


def test_outputs_as_text() -> None:
    error = {
        "output_type": "error",
        "ename": "E",
        "evalue": "v",
        "traceback": ["\x1b[31mat", "E: v"],
    }
    assert output_text(error, 1000) == "at\nE: v"
    assert output_text({**error, "traceback": []}, 1000) == "E: v"
    picture = shown(text_plain="<Figure>", image_png="aGk=")
    assert output_text(picture, 1000) == "<Figure>\n[image/png: see the notebook]"
    assert output_text(shown(text_html="<b>"), 1000) == "[text/html: see the notebook]"
    assert output_text(shown(text_plain=["a", "b"], text_html="<b>"), 1000) == "ab"
    for odd in ({}, {"output_type": "stream"}, {"output_type": "display_data", "data": 7}):
        assert output_text(odd, 1000) == ""


def test_a_large_notebook_is_cut_around_the_cell_that_counts() -> None:
    cells = [code(f"cell {number}", printed("\u4e2d" * 20_000)) for number in range(1, 200)]
    for largest in (LARGEST, LARGEST_LAST):
        made = rendered(*cells, at=100, largest=largest)
        numbers = [cell["cell"] for cell in made["cells"]]
        assert 100 in numbers and made["left_out"] == 199 - len(numbers)
    many = rendered(*[code("x" * 50) for _ in range(20_000)], at=10_000)
    assert 100 < len(many["cells"]) < 20_000
    assert LARGEST < LARGEST_TAKEN


def test_long_texts_have_their_end_and_sources_their_beginning() -> None:
    made = rendered(code("s" * 9_000, printed("begin\n" + "line\n" * 50_000 + "end")))
    (cell,) = made["cells"]
    assert cell["source"].endswith("\n[The rest is omitted.]")
    assert cell["output"].startswith(rendering._CUT) and cell["output"].endswith("end\n")
    assert "begin\n" not in cell["output"]
