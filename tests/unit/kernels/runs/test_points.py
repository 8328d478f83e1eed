"""Points of a run: grids, lists, samples, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs import RunError
from portal_session.runs.parameters import Parameter
from portal_session.runs.points import (
    MOST,
    Point,
    make_points,
    read_grid,
    read_list,
    typed_points,
)
from portal_session.runs.portal_run.command import assigned

KNOWN = {
    "lr": Parameter("lr", "float", "0.1", ""),
    "name": Parameter("name", "str", "'a'", ""),
    "n": Parameter("n", "int", "1", ""),
}


def test_a_grid() -> None:
    grid = read_grid({"lr": "0.1,1", "name": "a,b c"}, KNOWN)
    assert make_points([], grid) == [
        {"lr": 0.1, "name": "a"},
        {"lr": 0.1, "name": "b c"},
        {"lr": 1.0, "name": "a"},
        {"lr": 1.0, "name": "b c"},
    ]


def test_no_values_are_one_point() -> None:
    assert make_points([], {}) == [{}]


def test_spaces_after_commas(tmp_path: Path) -> None:
    assert read_grid({"lr": " 0.1, 1e-2", "n": "1, 2.0 ,3", "name": "a b, c"}, KNOWN) == {
        "lr": [0.1, 0.01],
        "n": [1, 2, 3],
        "name": ["a b", "c"],
    }
    file = tmp_path / "points.csv"
    file.write_text('lr, name, n\n0.1, "a, b", 2 \n1, c , \n')
    assert read_list(file, KNOWN) == [{"lr": 0.1, "name": "a, b", "n": 2}, {"lr": 1.0, "name": "c"}]


def test_values_of_a_script_as_they_were_typed(tmp_path: Path) -> None:
    """JSON has the number, the command line the text."""
    texts = {"v": "1.10, 1.1", "w": "True", "x": '[1.50, "1.50", true, 1E3]', "y": "a"}

    def points(typed: bool) -> list[Point]:
        return make_points([], read_grid(texts, None, typed=typed), 8, seed=1)

    own = make_points([], read_grid(texts, None), 8, seed=1)
    typed = typed_points(own, points(True))
    arguments = [of_point.get("v") for of_point in typed]
    assert {point["v"] for point in own} == {1.1} and set(arguments) == {"1.10", None}
    assert all(of_point["w"] == "True" for of_point in typed)
    written = {
        (str(point["x"]), of_point.get("x")) for point, of_point in zip(own, typed, strict=True)
    }
    assert written == {("1.5", "1.50"), ("1.50", None), ("True", None), ("1000.0", "1E3")}
    for name, text in (("p.csv", "v, f\n1.10, .5\n"), ("p.json", '[{"v": 1.10, "f": 0.50}]')):
        (tmp_path / name).write_text(text)
        rows = read_list(tmp_path / name, None)
        assert rows == [{"v": 1.1, "f": 0.5}]
        of_file = typed_points(rows, read_list(tmp_path / name, None, typed=True))
        assert of_file == [{"v": "1.10", "f": ".5" if name == "p.csv" else "0.50"}]
    assert typed_points([{"v": 1.1, "y": "a"}], [{"v": "1.1", "y": "a"}]) == []


def test_values_with_commas_are_a_json_list() -> None:
    assert read_grid({"name": '["a,b", "=", "c"]'}, KNOWN) == {"name": ["a,b", "=", "c"]}
    assert read_grid(assigned(["name=a=b"]), KNOWN) == {"name": ["a=b"]}


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (["lr"], "'lr' sets nothing"),
        (["=1"], "'=1' sets nothing"),
        (["lr=1", "lr=2"], "'lr' is set twice"),
        (["rate=1"], "no parameter 'rate'. Its parameters: lr, name, n."),
        (["lr=[]"], "The list of 'lr' is empty."),
        (["lr=[1"], "The list of 'lr' is not JSON."),
        (["lr=[NaN]"], "'lr' cannot be nan"),
        (["lr=[Infinity]"], "'lr' cannot be inf"),
        (["lr=[[1]]"], "must be a number, a string, true, false or null"),
    ],
)
def test_grids_that_are_refused(assignments: list[str], sentence: str) -> None:
    with pytest.raises(RunError) as error:
        read_grid(assigned(assignments), KNOWN)
    assert sentence in str(error.value)


def test_ten_thousand_points_and_one_more() -> None:
    grid: dict[str, Any] = {"a": list(range(100)), "b": list(range(100))}
    points = make_points([], grid)
    assert len(points) == MOST and points[1] == {"a": 0, "b": 1}
    with pytest.raises(RunError, match="at most 10,000 points, not 10,100"):
        make_points([], {**grid, "a": list(range(101))})


def test_a_huge_grid_is_refused_before_it_is_made() -> None:
    grid = {f"p{number}": list(range(1000)) for number in range(20)}
    with pytest.raises(RunError, match="at most 10,000 points"):
        make_points([], grid)
    with pytest.raises(RunError, match="The grid is too large"):
        make_points([], grid, sample=5)


def test_a_sample_has_distinct_points_of_the_grid_and_repeats_by_its_seed() -> None:
    grid: dict[str, Any] = {"a": list(range(1000)), "b": list(range(1000))}
    points = make_points([], grid, sample=50, seed=7)
    assert points == make_points([], grid, sample=50, seed=7)
    assert points != make_points([], grid, sample=50, seed=8)
    assert len({(point["a"], point["b"]) for point in points}) == 50
    with pytest.raises(RunError, match="The grid has only 4 points; the sample has 5"):
        make_points([], {"a": [1, 2], "b": [1, 2]}, sample=5)
    with pytest.raises(RunError, match="no grid to sample"):
        make_points([], {}, sample=5)
    with pytest.raises(RunError, match="A list of points is always used as a whole"):
        make_points([{"a": 1}], {"b": [1]}, sample=1)


def test_a_list_in_json(tmp_path: Path) -> None:
    file = tmp_path / "points.json"
    rows = [{"lr": 1, "name": 'it\'s\n"so"'}, {}]
    file.write_text(json.dumps(rows))
    points = read_list(file, KNOWN)
    assert points == [{"lr": 1.0, "name": 'it\'s\n"so"'}, {}]
    assert len(make_points(points, {"n": [1, 2, 3]})) == 6
    with pytest.raises(RunError, match="'lr' is both set and in the list"):
        make_points(points, {"lr": [1]})


def test_a_list_in_csv(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    with file.open("w", newline="", encoding="utf-8-sig") as out:
        csv.writer(out).writerows([["lr", " name "], ["0.5", 'a,"b"\nc'], [], ["", "1"], ["1", ""]])
    assert read_list(file, KNOWN) == [
        {"lr": 0.5, "name": 'a,"b"\nc'},
        {"name": "1"},
        {"lr": 1.0},
    ]


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("p.json", "{}", "must be a list of objects"),
        ("p.json", "[1]", "Entry 1 of 'p.json' is not an object"),
        ("p.json", '[{"lr": NaN}]', "'lr' cannot be nan"),
        ("p.json", '[{"lr": 1}, {"x": 1}]', "no parameter 'x'"),
        ("p.json", "[", "'p.json' is not JSON."),
        ("p.json", "[]", "'p.json' has no points."),
        ("p.json", "[" * 100_000, "'p.json' is not JSON."),
        ("p.csv", "", "'p.csv' has no points."),
        ("p.csv", "lr\n", "'p.csv' has no points."),
        ("p.csv", "lr,lr\n1,2", "has the same name twice"),
        ("p.csv", "lr,n\n1,2\n1", "Line 3 of 'p.csv' has 1 values; its first line has 2 names."),
        ("p.csv", "lr\nfast", "'lr' is a number in the notebook"),
        ("p.csv", 'name\n"a', "is not CSV"),
        ("p.csv", "n\n" + "1\n" * (MOST + 1), "at most 10,000 points"),
        ("p.txt", "lr", "must be a .json or .csv file"),
    ],
)
def test_lists_that_are_refused(tmp_path: Path, file: str, text: str, sentence: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(RunError) as error:
        read_list(tmp_path / file, KNOWN)
    assert sentence in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read: No such file"):
        read_list(tmp_path / "p.json", KNOWN)
    (tmp_path / "p.json").write_bytes(b"\xff\xfe")
    with pytest.raises(RunError, match="is not UTF-8 text"):
        read_list(tmp_path / "p.json", KNOWN)


def test_a_point_fits_into_an_environment_variable() -> None:
    with pytest.raises(RunError, match="Point 0 has more than 60,000 bytes"):
        make_points([{f"p{number}": "x" * 9000 for number in range(8)}], {})
