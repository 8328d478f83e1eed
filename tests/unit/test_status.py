"""The table of states (templates/status.html): one look and icon for each state of a page."""

from __future__ import annotations

import re
from enum import StrEnum

import jinja2
import pytest

from portal.models.catalog.catalog import RequestState
from portal.models.catalog.environment import EnvironmentState
from portal.models.catalog.image_job import WorkState
from portal.models.cluster.gpu import GpuState
from portal.models.course.board import TileState
from portal.models.course.live import HelpState
from portal.models.course.start import ReservationState, SeatState
from portal.models.session.move import MoveState
from portal.models.session.run import PointState
from portal.models.session.session import SessionState
from portal.models.space import SpaceState
from portal.paths import data_path
from portal.work.run.results.item import RunState

_PAGE = jinja2.Environment(
    loader=jinja2.FileSystemLoader(data_path("templates")), autoescape=True
).get_template("status.html")
_TABLE = _PAGE.module.STATES  # type: ignore[attr-defined]  # a variable of the template
_LOOKS = _PAGE.module.LOOKS  # type: ignore[attr-defined]
_STATES: tuple[type[StrEnum], ...] = (
    *(SessionState, MoveState, PointState, RunState, WorkState, EnvironmentState, RequestState),
    *(GpuState, TileState, SeatState, ReservationState, HelpState, SpaceState),
)


@pytest.mark.parametrize("states", _STATES, ids=lambda states: states.__name__)
def test_each_state_is_in_the_table(states: type[StrEnum]) -> None:
    assert {str(state) for state in states} <= _TABLE.keys()


def test_states_of_scripts_are_in_the_table() -> None:
    """A state that a script names, and that is not an enumeration's."""
    scripts = (data_path("static") / "js").rglob("*.js")
    text = "\n".join(path.read_text() for path in scripts)
    named = {
        name
        for given in re.findall(r"\bpill\(([^\n]*)\)", text)
        for name in re.findall(r'[?:(] ?"([a-z]+)"', f"({given.split(',')[0]}")
    }
    assert {"uncertain", "passed"} <= named <= _TABLE.keys()


def test_each_look_has_its_colours() -> None:
    sheet = (data_path("templates") / "assets/components.css").read_text()
    assert {look for look, _ in _TABLE.values()} == _LOOKS.keys()
    coloured = set(re.findall(r"^\.state-(\w+) {", sheet, re.MULTILINE))
    assert coloured == _LOOKS.keys() - {"held", "other"}  # these have the pill's own


def test_a_pill_has_icon_look_and_words() -> None:
    pill = str(_PAGE.module.pill("failed", "Exit code <1>"))  # type: ignore[attr-defined]
    assert pill == (
        '<span class="state state-bad"><i class="fa fa-xmark" aria-hidden="true"></i> '
        "Exit code &lt;1&gt;</span>"
    )
    assert "fa-question" in str(_PAGE.module.pill("nobody knows"))  # type: ignore[attr-defined]
