"""Parameters of notebooks: what their cell declares, and which values it takes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import nbformat
import pytest
from portal_session.runs import RunError
from portal_session.runs.parameters import (
    Parameter,
    check_name,
    check_value,
    declared,
    read_value,
)
from portal_session.runs.source import INJECTED, Source, injected, kernel_of, parsed


def notebook(*cells: tuple[str, list[str]], **metadata: Any) -> Source:
    """A notebook of code cells: their text and tags."""
    made = [
        {"cell_type": "code", "source": text.splitlines(True), "metadata": {"tags": tags}}
        for text, tags in cells
    ]
    content = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return Source(Path("/home/ada/train.ipynb"), json.dumps(content).encode(), content)


CELL = """\
%matplotlib inline
# Learning
lr = 0.1  # of the optimizer
epochs: int = 10  # type: int so many passes
name = "a # b"
layers = [1, 2]
fast = False #@param {type:"boolean"}
best = None
step = 10 * lr
first, second = 1, 2
!echo hello
lr = 1e-3  # newer
"""


def test_what_the_cell_declares() -> None:
    known = declared(notebook(("import os", []), (CELL, ["parameters"])))
    assert known is not None
    names = ["lr", "epochs", "name", "layers", "fast", "best", "step", "first", "second"]
    assert list(known) == names
    assert known["lr"] == Parameter("lr", "float", "1e-3", "newer")
    assert known["epochs"] == Parameter("epochs", "int", "10", "so many passes")
    assert known["name"] == Parameter("name", "str", '"a # b"', "")
    assert known["fast"].help == "", "a form of Colab"
    types = {name: parameter.type for name, parameter in known.items()}
    assert types["layers"] == "list" and types["best"] == "NoneType" and types["step"] == ""


LINES = """\
a, b = 1, "two"  # a pair
c = d = 5
(e, (f, g)), h = (1.5, (2, 3)), 4
files = !ls \\
    -l | head
host = %env HOSTNAME
lr?
?print
!echo "open (
%load_ext \\
    autoreload
rest = (10
    % 3)
i, j = divmod(7, 2)
rate: float = 1
"""


def test_lines_as_notebooks_have_them() -> None:
    known = declared(notebook((LINES, ["parameters"])))
    assert known is not None
    about = {name: (parameter.type, parameter.value) for name, parameter in known.items()}
    assert about == {
        **{"a": ("int", "1"), "b": ("str", '"two"'), "c": ("int", "5"), "d": ("int", "5")},
        **{"e": ("float", "1.5"), "f": ("int", "2"), "g": ("int", "3"), "h": ("int", "4")},
        **{"files": ("", "!ls \\"), "host": ("", "%env HOSTNAME"), "rest": ("", "10\n    % 3")},
        **{"i": ("", "divmod(7, 2)"), "j": ("", "divmod(7, 2)"), "rate": ("float", "1")},
    }
    assert known["a"].help == known["b"].help == "a pair"


def test_many_commands_are_read_soon() -> None:
    cell = "\n".join(["!echo '("] * 3000 + ["lr = 1"])
    assert declared(notebook((cell, ["parameters"]))) == {"lr": Parameter("lr", "int", "1", "")}


def test_no_cell_declares_nothing_and_a_script_takes_all() -> None:
    assert declared(notebook(("lr = 1", []))) == {}
    assert declared(Source(Path("/a.py"), b"", None)) is None
    check_name("learning-rate", None)
    with pytest.raises(RunError, match="Give a cell the tag 'parameters'"):
        check_name("lr", {})
    with pytest.raises(RunError, match="Its parameters: lr, epochs, name"):
        check_name("lrate", declared(notebook((CELL, ["parameters"]))))


@pytest.mark.parametrize("name", ["", "a b", "a=b", "-x", "x\n", "x" * 101, "../x", "é"])
def test_what_is_no_name_for_a_script(name: str) -> None:
    with pytest.raises(RunError, match="is not a valid parameter name"):
        check_name(name, None)


@pytest.mark.parametrize("text", ["lr = = 1", "def", "x = '\0'", "(" * 400])
def test_a_cell_that_is_not_python(text: str) -> None:
    with pytest.raises(RunError, match="'parameters' cannot be read"):
        declared(notebook((text, ["parameters"])))


def test_a_notebook_of_another_language() -> None:
    source = notebook(("lr <- 1", ["parameters"]), kernelspec={"name": "ir", "language": "R"})
    known = declared(source)  # without values, it runs as it is
    with pytest.raises(RunError, match="with a Python kernel; this one's language is 'r'"):
        check_name("lr", known)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("lr", "1", 1.0),
        ("lr", "1e-3", 0.001),
        ("epochs", "3", 3),
        ("lr", ".5", 0.5),
        ("lr", "+5.", 5.0),
        ("epochs", "2.0", 2),
        ("epochs", "1e3", 1000),
        ("epochs", "+7 ", 7),
        ("name", "1", "1"),
        ("name", "true", "true"),
        ("name", "nan", "nan"),
        ("name", 'it\'s "quoted"', 'it\'s "quoted"'),
        ("fast", "true", True),
        ("fast", "False", False),
        ("best", "7", 7),
        ("best", "text", "text"),
        ("step", "null", None),
        ("lr", "null", None),
    ],
)
def test_values_by_the_type_of_the_parameter(name: str, text: str, value: Any) -> None:
    known = declared(notebook((CELL, ["parameters"])))
    read = read_value(name, text, known)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("01", "01"),
        ("-0.5e3", -500.0),
        ("True", True),
        ("nan", "nan"),
        ("", ""),
        (" 1", 1),
        (".5", 0.5),
        ("1e3", 1000.0),
        (" a", " a"),
    ],
)
def test_values_of_a_script(text: str, value: Any) -> None:
    read = read_value("x", text, None)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("lr", "fast", "'lr' is a number in the notebook, and cannot be \"fast\"."),
        ("lr", "true", "'lr' is a number in the notebook, and cannot be true."),
        ("lr", "", "'lr' is a number in the notebook"),
        ("epochs", "2.5", "'epochs' is a whole number in the notebook, and cannot be 2.5."),
        ("epochs", "1e-3", "Give it a default with a decimal point, such as 1.0"),
        ("fast", "1", "'fast' is true or false in the notebook, and cannot be 1."),
        ("layers", "1", "'layers' is a list in the notebook"),
        ("lr", "nan", "'lr' cannot be nan: JSON has no such number"),
        ("lr", "-inf", "'lr' cannot be -inf: JSON has no such number"),
        ("lr", "1e999", "'lr' cannot be inf: JSON has no such number"),
    ],
)
def test_values_of_another_type(name: str, text: str, sentence: str) -> None:
    known = declared(notebook((CELL, ["parameters"])))
    with pytest.raises(RunError) as error:
        read_value(name, text, known)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, [1], {"a": 1}, "\0", "\ud800", "x" * 10_001, (), b"x"]
)
def test_what_no_point_may_have(value: Any) -> None:
    with pytest.raises(RunError):
        check_value("x", value, None)


def test_numbers_of_any_size_stay_numbers() -> None:
    known = declared(notebook((CELL, ["parameters"])))
    assert check_value("lr", 10**400, known) == 10**400


HOSTILE = ["'", '"', "\\", "'''\n\"\"\"", "{x} %s", "\nimport os\nos.system('x')", "é\u2028\x07"]


def test_injected_values_are_literals() -> None:
    values: dict[str, Any] = dict(zip("abcdefg", HOSTILE, strict=True))
    values |= {"h": True, "i": None, "j": -1.5}
    source = notebook(("import os", []), ("a = 1", ["parameters"]), ("print(a)", []))
    assert source.notebook is not None
    changed = injected(source.notebook, values)
    assert [cell["metadata"]["tags"] for cell in changed["cells"]][2] == [INJECTED]
    assert len(source.notebook["cells"]) == 3, "the source stays as it is"
    names: dict[str, Any] = {}
    exec(changed["cells"][2]["source"], names)
    assert {name: names[name] for name in values} == values
    again = injected(changed, {"a": 2})
    assert len(again["cells"]) == 4 and "a = 2" in again["cells"][2]["source"]
    assert len(injected(source.notebook, {})["cells"]) == 3
    assert injected(changed, {}) == changed, "what papermill has injected stays"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"cells": 1}', b'{"cells": [1]}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_notebook(content: bytes) -> None:
    with pytest.raises(RunError, match="is not a notebook"):
        parsed(content, "x.ipynb")


def test_a_notebook_without_metadata_has_no_kernel() -> None:
    assert kernel_of({"cells": []}) == kernel_of({"metadata": [], "cells": []}) == ""


def test_a_notebook_of_an_old_format_is_converted() -> None:
    old = nbformat.v3.new_notebook(worksheets=[nbformat.v3.new_worksheet()])
    code = nbformat.v3.new_code_cell(input="lr = 1\nn = 2", metadata={"tags": ["parameters"]})
    old.worksheets[0].cells += [code, nbformat.v3.new_heading_cell(source="Title")]
    for version in (3, 2):
        written = json.loads(nbformat.v3.writes_json(old))  # texts are lists of lines
        assert written["worksheets"][0]["cells"][0]["input"] == ["lr = 1\n", "n = 2"]
        content = json.dumps({**written, "nbformat": version}).encode()
        notebook = parsed(content, "x.ipynb")
        assert notebook["nbformat"] == 4
        assert list(declared(Source(Path("/x.ipynb"), content, notebook)) or ()) == ["lr", "n"]
    with pytest.raises(RunError, match="old format 3 that cannot be converted"):
        parsed(b'{"nbformat": 3, "worksheets": 1}', "x.ipynb")
