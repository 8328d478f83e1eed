"""Requests of JupyterLab's dialog: as those of portal-run, with errors by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from portal_session.runs import RunError
from portal_session.runs.asked_points import read_points
from portal_session.runs.lab.cell_script import cell_script, check_code
from portal_session.runs.portal_run import command
from portal_session.runs.request import read_request, source_path
from run_fields import choices

FIELDS = choices()["fields"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("print('on')\n")
    return path


def test_a_request_is_that_of_the_command_line(script: Path) -> None:
    body = {
        "name": "rates",
        "values": {"lr": "0.1,0.01", "depth": "", "text": '["a, b", "-c"]', "-x": "--gpus=9"},
        "sample": 2,
        "seed": 0,
        "at_once": 3,
        "environment": "torch",
        "after": "prepare",
        "project": "proteins",
        "file": None,
        "resources": {"gpus": 2, "gpu_type": "v100", "memory": "8G", "constraint": ""},
    }
    request = read_request(body, script)
    assert request.values == {"lr": "0.1,0.01", "text": '["a, b", "-c"]', "-x": "--gpus=9"}
    assert request.source == script and request.file is None
    assert request.resources == {"gpus": 2, "gpu_type": "v100", "memory": "8G"}
    argv = [f"--set={name}={text}" for name, text in request.values.items()]
    argv += ["--name=rates", "--sample=2", "--seed=0", "--at-once=3", "--environment=torch"]
    argv += ["--project=proteins", "--after=prepare", "--gpus=2", "--gpu-type=v100"]
    argv += ["--memory=8G", str(script)]
    options = command.request_of(command.parser(FIELDS).parse_args(argv))
    assert options._replace(notify=(), ranges=()) == request


def test_the_least_that_a_request_has(script: Path) -> None:
    request = read_request({"after": "", "values": {"lr": " "}}, script)
    assert (request.at_once, request.values, request.sample) == (10, {}, 0)
    assert request.after is None
    assert len(read_points(request).points) == 1 and request.resources == {}


def test_the_points_may_be_in_the_request(script: Path, tmp_path: Path) -> None:
    """As a run of a project's file is repeated."""
    rows = [{"lr": 0.1, "opt": "adam"}, {"lr": 1e-05, "deep": True, "none": None}]
    asked = read_points(read_request({"rows": rows}, script))
    assert asked.points == rows and asked.typed == []
    both = read_request({"rows": [{"lr": 1}], "values": {"depth": "2,3"}}, script)
    assert [point["depth"] for point in read_points(both).points] == [2, 3]
    for wrong in ("text", [1], [{"lr": [1]}], [{"a b": 1}], [{"lr": 1}] * 10_001):
        with pytest.raises(RunError):
            read_points(read_request({"rows": wrong}, script))
    with pytest.raises(RunError, match="instead of a file"):
        read_request({"rows": rows, "file": "list.csv"}, script)


def test_numbers_may_be_texts(script: Path) -> None:
    """The dialog sends what is typed into its fields."""
    numbers = {"at_once": "3", "sample": "1", "seed": "7", "ranks": "4"}
    request = read_request({**numbers, "values": {"lr": " 0.1,  0.01 "}}, script)
    assert (request.at_once, request.sample, request.seed, request.ranks) == (3, 1, 7, 4)
    assert read_points(request).points in ([{"lr": 0.1}], [{"lr": 0.01}])


def test_a_list_is_beside_the_source(script: Path) -> None:
    (script.parent / "points.csv").write_text("lr\n0.1\n0.2\n")
    assert len(read_points(read_request({"file": "points.csv"}, script)).points) == 2
    absolute = {"file": str(script.parent / "points.csv")}
    assert len(read_points(read_request(absolute, script)).points) == 2


@pytest.mark.parametrize(
    ("body", "field", "sentence"),
    [
        ({"name": "../x"}, "name", "is not a valid name of a run"),
        ({"name": 7}, "name", "must be a string"),
        ({"name": "a\0b"}, "name", "must be a string"),
        ({"at_once": 0}, "at_once", "Must be a whole number from 1 to 1000."),
        ({"at_once": True}, "at_once", "Must be a whole number from 1 to 1000."),
        ({"at_once": 1.5}, "at_once", "Must be a whole number from 1 to 1000."),
        ({"ranks": "0"}, "ranks", "Must be a whole number from 1 to 256."),
        ({"ranks": 257}, "ranks", "Must be a whole number from 1 to 256."),
        ({"at_once": {}}, "at_once", "Must be a whole number from 1 to 1000."),
        ({"seed": "9" * 50}, "seed", "Must be a whole number from 0 to"),
        ({"after": 7}, "after", "must be a string"),
        ({"after": "a\nb"}, "after", "must be a string"),
        ({"project": 7}, "project", "must be a string"),
        ({"sample": 3}, "sample", "There is no grid to sample"),
        ({"sample": 9, "values": {"a": "1,2"}}, "sample", "The grid has only 2 points"),
        ({"sample": -1}, "sample", "Must be a whole number from 1 to 10000."),
        ({"file": "nowhere.csv"}, "file", "cannot be read"),
        ({"file": "~no-such-user-of-ours/x.csv"}, "file", "There is no file"),
        ({"file": "train.py"}, "file", "must be a .json or .csv file"),
        ({"values": {"lr": "[1"}}, "values:lr", "is not JSON"),
        ({"values": {"lr": "[[1]]"}}, "values:lr", "must be a number, a string"),
        ({"values": {"lr": 7}}, "values:lr", "longer than"),
        ({"values": {"a=b": "1"}}, "values:a=b", "is not a valid parameter name"),
        ({"values": {"a b": "1"}}, "values:a b", "is not a valid parameter name"),
        ({"values": ["lr"]}, "values", "must be an object"),
        ({"values": {str(n): "1" for n in range(300)}}, "values", "at most 200"),
        ({"values": {"a": "1" + ",2" * 300, "b": "1" + ",2" * 300}}, "", "at most 10,000 points"),
        ({"resources": {"folder": "/etc"}}, "resources", "'folder' is not a resource"),
        ({"resources": {"notify": "end"}}, "resources", "'notify' is not a resource"),
        ({"resources": {"project": "x"}}, "resources", "'project' is not a resource"),
        ({"resources": ["gpus"]}, "resources", "must be an object"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_errors_name_their_field(
    script: Path, body: dict[str, Any], field: str, sentence: str
) -> None:
    with pytest.raises(RunError) as error:
        read_points(read_request(body, script))
    assert (error.value.field, sentence in str(error.value)) == (field, True), str(error.value)
    assert "portal-run" not in str(error.value), "the dialog has no command line"


@pytest.mark.parametrize("path", ["", "/", "../x.py", "a/../../x.py", None, 7, "a\0.py", "a\nb"])
def test_paths_that_cannot_be_used(path: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError) as error:
        source_path(path, tmp_path)
    assert error.value.field == "source"


def test_a_path_is_below_the_server_s_folder(tmp_path: Path) -> None:
    assert source_path("work/train.ipynb", tmp_path) == tmp_path / "work/train.ipynb"
    assert source_path("/work/ü x.ipynb", tmp_path) == tmp_path / "work/ü x.ipynb"


# -- scripts of cells ------------------------------------------------------------------------------


def test_a_cell_is_a_script_with_the_parameters_as_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = tmp_path / "tr{ain}\n'x'.ipynb"
    with cell_script("found = lr * 2\n", notebook) as script:
        text = script.read_text()
    assert script.parent == tmp_path and script.exists()
    names: dict[str, Any] = {}
    monkeypatch.setenv("PORTAL_PARAMETERS", '{"lr": 21}')
    exec(compile(text, "cell", "exec"), names)
    assert names["found"] == 42


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "train-cell.py").write_text("mine")
    with cell_script("x = 1", tmp_path / "train.ipynb") as script:
        assert script.name == "train-cell-2.py"
    assert (tmp_path / "train-cell.py").read_text() == "mine"


def test_a_refused_run_leaves_no_script(tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match="refused"),
        cell_script("x = 1", tmp_path / "train.ipynb"),
    ):
        raise RunError("It is refused.")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    with (
        pytest.raises(RunError, match="Copy the notebook to one of your folders"),
        cell_script("x = 1", tmp_path / "folder/train.ipynb"),
    ):
        pytest.fail("it was written")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("x = 1\n!ls", "not plain Python in line 2"),
        ("%matplotlib inline", "not plain Python in line 1"),
        ("await x()", "not plain Python in line 1"),
        ("x = 1\nfrom __future__ import annotations", "not plain Python in line 2"),
        ("  \n", "The cell is empty"),
        ("x = 1\0", "cannot be a Python script"),
        ("'\ud800'", "cannot be a Python script"),
        ("x = 1\n" * 100_000, "more than 200,000 characters"),
        (None, "The cell is empty"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_cells_that_cannot_be_scripts(code: Any, sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        check_code(code)


@pytest.mark.parametrize(
    "code",
    [
        "x = lr",
        "# first\nfrom __future__ import annotations\nx: Missing = lr",
        "'doc'\nfrom __future__ import (\n    annotations,\n    division)  # é\nx = lr",
        "from __future__ import division; from __future__ import annotations; x = lr",
    ],
)
def test_imports_of_the_future_stay_first(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_PARAMETERS", '{"lr": 0.5}')
    with cell_script(check_code(code), tmp_path / "train.ipynb") as path:
        names: dict[str, Any] = {}
        exec(compile(path.read_bytes(), "cell", "exec", dont_inherit=True), names)
    assert names["x"] == 0.5
