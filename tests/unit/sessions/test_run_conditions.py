"""Conditions on the points of a run, as a user types them."""

from __future__ import annotations

from typing import Any

import pytest

from portal.errors import InvalidRequest
from portal.models.session.run import PointState
from portal.work.run.results.conditions import Condition, conditions
from portal.work.run.results.order import point_numbers
from portal.work.run.tables.points import PointKeys


def a_point(number: int, parameters: dict[str, Any], **metrics: float) -> PointKeys:
    return PointKeys(number, PointState.SUCCEEDED, None, metrics, parameters, None, None)


KEYS = [
    a_point(0, {"lr": 0.1, "opt": "adam", "nesterov": True}, loss=0.5),
    a_point(1, {"lr": 0.01, "opt": "sgd", "nesterov": False}, loss=0.2),
    a_point(2, {"lr": 1, "opt": "adam w"}, loss=3.0),
    a_point(3, {"lr": "0.01", "opt": None}),
]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("lr<0.1", [1]),
        ("lr<=0.1", [0, 1]),
        ("lr > 1e-2", [0, 2]),
        ("lr=1.0", [2]),
        ("lr=0.01", [1, 3]),
        ("opt=Adam", [0]),
        ('opt="adam w"', [2]),
        ("opt!=adam", [1, 2]),
        ("opt<z", []),
        ("nesterov=true", [0]),
        ("nesterov<2", []),
        ("loss<1 opt=adam", [0]),
        ("loss<1,lr>=0.01", [0, 1]),
        (' "loss"!=0.5 ', [1, 2]),
        ("other=1", []),
        ("other!=1", []),
    ],
)
def test_all_conditions_have_to_hold(text: str, numbers: list[int]) -> None:
    assert point_numbers(5, KEYS, None, "number", where=conditions(text)) == numbers


def test_a_name_may_have_what_metrics_have_in_their_names() -> None:
    expected = (Condition("validation/loss", "<=", "-1e-3"), Condition("f1.macro", ">", "a:b"))
    assert conditions("validation/loss<=-1e-3 f1.macro>a:b") == expected


@pytest.mark.parametrize(
    "text", ["lr", "lr<", "<0.1", "lr=0.1 opt", "lr==", 'opt="adam', "lr<0.1 or"]
)
def test_what_is_no_condition_is_named(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a condition"):
        conditions(text)
