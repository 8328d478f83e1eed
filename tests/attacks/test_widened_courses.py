"""An approved course whose instructor makes more of it, by saying more or by saying nothing."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from portal.courses.definition.limits import more_than_approved
from portal.models.course.course import Course

NAMED = {"partition": "gpu", "qos": "class", "gpu_type": "t4"}
SIZES = {"gpus": 1, "cpus": 4, "memory": "8G", "time": "1:00:00", "nodes": 1}
MORE = {"gpus": 2, "cpus": 5, "memory": "9G", "time": "1:00:01", "nodes": 2}
APPROVED: dict[str, Any] = {
    "name": "deep",
    "title": "Deep",
    "environment": "lab",
    "begins": date(2027, 1, 1),
    "ends": date(2027, 3, 1),
    "account": "dl101",
    "budget": 100,
    "default": {**NAMED, **SIZES},
    "largest": {**NAMED, **SIZES},
    "reservation": {"nodes": 2, "partition": "gpu"},
}
PARTS = ("default", "largest")


def fields(wanted: dict[str, Any], approved: dict[str, Any] = APPROVED) -> set[str]:
    before, after = Course.model_validate(approved), Course.model_validate(wanted)
    return {one.field for one in more_than_approved(before, after)}


def changed(part: str, **more: Any) -> dict[str, Any]:
    return {**APPROVED, part: {**APPROVED[part], **more}}


@pytest.mark.parametrize("how", ["null", "left out", "another"])
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("part", PARTS)
def test_a_name_that_was_approved_stays(part: str, name: str, how: str) -> None:
    wanted = changed(part, **{name: {"null": None}.get(how, "v100")})
    if how == "left out":
        del wanted[part][name]
    assert f"{part}.{name}" in fields(wanted)


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("part", PARTS)
def test_a_size_that_was_approved_does_not_grow(part: str, name: str) -> None:
    assert f"{part}.{name}" in fields(changed(part, **{name: MORE[name]}))


@pytest.mark.parametrize("name", ["cpus", "memory", "time"])
@pytest.mark.parametrize("part", PARTS)
def test_a_size_that_was_approved_is_not_left_unsaid(part: str, name: str) -> None:
    assert f"{part}.{name}" in fields(changed(part, **{name: None}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("account", None),
        ("account", "physics"),
        ("budget", None),
        ("budget", 101),
        ("reservation", {"nodes": 3, "partition": "gpu"}),
        ("reservation", {"nodes": 2}),
        ("reservation", {"nodes": 2, "partition": None}),
        ("reservation", {"nodes": 2, "partition": "cpu"}),
        ("begins", date(2026, 12, 31)),
        ("ends", date(2027, 3, 2)),
    ],
)
def test_what_stands_for_the_whole_course_stays(name: str, value: Any) -> None:
    assert {one.split(".")[0] for one in fields({**APPROVED, name: value})} == {name}


def test_the_same_and_less_need_nobody() -> None:
    assert fields(APPROVED) == set()
    less = {"gpus": 0, "cpus": 1, "memory": "1G", "time": "0:10:00"}
    assert fields({**changed("default", **less), "budget": 1}) == set()
