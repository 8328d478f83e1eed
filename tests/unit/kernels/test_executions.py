"""Executions go on in another process with all that they had, and what is in a file stays there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from portal_session.notebooks.cell_outputs import CellOutputs
from portal_session.notebooks.executions import UNNOTICED, Execution

Messages = list[tuple[str, dict[str, Any]]]


def _printed(text: str, name: str = "stdout") -> tuple[str, dict[str, Any]]:
    return "stream", {"name": name, "text": text}


def _displayed(text: str, id: str = "", kind: str = "display_data") -> tuple[str, dict[str, Any]]:
    transient = {"display_id": id} if id else {}
    return kind, {"data": {"text/plain": text}, "metadata": {}, "transient": transient}


STORIES: dict[str, tuple[Messages, Messages]] = {
    "lines": ([_printed("1\n")], [_printed("2\n")]),
    "a line in two pieces": ([_printed("1")], [_printed("2\n")]),
    "a progress bar": ([_printed("10 %")], [_printed("\r20 %")]),
    "a progress bar that has gone back": ([_printed("10 %\r")], [_printed("20 %")]),
    "two streams": ([_printed("1"), _printed("bad", "stderr")], [_printed("2"), _printed("3")]),
    "a display that is cleared": (
        [_displayed("1"), ("clear_output", {"wait": True})],
        [_displayed("2")],
    ),
    "a display that is changed": (
        [_displayed("1", "shown"), _printed("text")],
        [("update_display_data", _displayed("2", "shown")[1])],
    ),
    "an error": (
        [("execute_input", {"execution_count": 7}), _printed("1")],
        [("error", {"ename": "E", "evalue": "e", "traceback": ["t"]})],
    ),
    "nothing yet": ([], [_printed("1")]),
}


def _take(outputs: CellOutputs, messages: Messages) -> None:
    for kind, content in messages:
        if kind == "update_display_data":
            outputs.update(content)
        else:
            outputs.take(kind, content)


@pytest.mark.parametrize("story", STORIES)
def test_outputs_go_on_in_another_process(story: str) -> None:
    before, after = STORIES[story]
    whole, first = CellOutputs(), CellOutputs()
    _take(whole, before + after)
    _take(first, before)
    second = CellOutputs.restored(json.loads(json.dumps(first.state())))
    assert second.changes > 0, "all of it is to be written"
    _take(second, after)
    assert second.as_json() == whole.as_json()
    assert (second.execution_count, second.size) == (whole.execution_count, whole.size)


def test_the_limit_of_a_cell_holds_there_too() -> None:
    outputs = CellOutputs()
    outputs.take(*_printed("x" * (17 * 1024 * 1024)))
    restored = CellOutputs.restored(outputs.state())
    restored.take(*_printed("more"))
    assert restored.as_json() == outputs.as_json()


@pytest.mark.parametrize("state", [{}, {"outputs": 5}, {"outputs": [5], "display_ids": [None]}])
def test_what_is_no_state_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not the state"):
        CellOutputs.restored(state)
    good = Execution("1", "page", "cell", "code", 5.0).state(9.0)
    with pytest.raises(ValueError, match="not the state"):
        Execution.restored({**good, "outputs": state})
    for name, value in (("id", ""), ("cell", None), ("started", "x"), ("ended", "x"), ("code", 5)):
        with pytest.raises(ValueError, match="not the state"):
            Execution.restored({**good, name: value})


LOST = 10_000.0  # when the server was lost


@pytest.mark.parametrize(
    ("ended", "saved_at", "has_all"),
    [
        (None, LOST + 500, False),
        (LOST + 100, LOST + 50, False),
        (LOST + 100, LOST + 200, False),  # by a page that has no connection
        (LOST - 50, LOST - 60, False),
        (LOST - 50, LOST - 10, True),
        (LOST - 50, LOST + 10, False),  # what came last may not have arrived
        (LOST - UNNOTICED - 50, LOST - UNNOTICED - 60, False),
        (LOST - UNNOTICED - 50, LOST + 10, True),
    ],
)
def test_a_page_saved_what_it_saw(ended: float | None, saved_at: float, has_all: bool) -> None:
    execution = Execution("1", "page", "cell", "code", LOST - 1000)
    execution.ended = ended
    restored = Execution.restored(json.loads(json.dumps(execution.state(LOST))))
    assert restored.saved_by_page(saved_at) is has_all
    assert restored.past and restored.asked_by == "page"
