"""The environments and notebooks that the portal ships, as files: valid, clean, and complete."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

from portal.catalog import CatalogRules, EnvironmentCatalog
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.catalog.image import SourceKind, parse_source

ROOT = Path(__file__).resolve().parents[3]
CATALOG = ROOT / "deploy/environments"
STARTERS = CATALOG / "starters"
FILES = sorted(CATALOG.glob("*.yaml"))
NOTEBOOKS = sorted(STARTERS.glob("*.ipynb"))
SCRIPTS = sorted(STARTERS.glob("*.py"))
# What the catalog is to have at least.
WANTED = {
    "tensorflow", "pytorch", "mxnet", "caffe2", "horovod", "rapids", "r", "python", "cuda",
    "resnet50-benchmark", "chexnet-densenet", "distributed-ddp",
}  # fmt: skip
# Old frameworks of which no test runs anything: they come without a notebook.
UNTESTED = {"caffe", "chainer", "cntk", "digits", "python2", "theano", "torch7"}


@pytest.fixture(scope="module")
def environments() -> dict[str, Environment]:
    catalog = EnvironmentCatalog(directory=str(CATALOG))
    asyncio.run(catalog.load())
    assert not catalog.errors, catalog.errors
    return dict(catalog.environments)


def test_every_file_is_a_valid_environment(environments: dict[str, Environment]) -> None:
    assert set(environments) == {path.stem for path in FILES} >= WANTED
    for environment in environments.values():
        assert CatalogRules().problems(environment) == []


def test_each_can_be_built_from_a_public_registry(environments: dict[str, Environment]) -> None:
    for environment in environments.values():
        source = parse_source(environment.source or "")
        assert environment.kind is EnvironmentKind.CONTAINER and not environment.image
        assert source.kind is SourceKind.OCI and source.tag not in ("", "latest"), environment.name
        assert environment.description and environment.tags and environment.icon


def test_every_starter_is_a_file_and_every_file_a_starter(
    environments: dict[str, Environment],
) -> None:
    named = [name for one in environments.values() for name in one.starters]
    # Each is of one environment.
    assert sorted(named) == sorted(path.name for path in NOTEBOOKS + SCRIPTS)
    without = {name for name, environment in environments.items() if not environment.starters}
    assert without == UNTESTED


def test_what_is_historical_says_so_and_stands_last(environments: dict[str, Environment]) -> None:
    old = {name for name, environment in environments.items() if "historical" in environment.tags}
    assert old == UNTESTED | {"caffe2", "horovod", "mxnet"}
    page = (ROOT / "docs/how-to/shipped-catalog.md").read_text()
    untested = page.partition("- not at all:")[2].partition("\n\n")[0]
    others = [one.order for name, one in environments.items() if name not in UNTESTED]
    for name in UNTESTED:
        environment = environments[name]
        assert "Historical" in environment.description, name
        assert "not tested by the portal's project" in environment.description.replace("\n", " ")
        assert environment.order > max(others), name
        assert f"`{name}`" in untested, name


def test_the_images_of_old_frameworks_are_named_in_the_documents(
    environments: dict[str, Environment],
) -> None:
    page = (ROOT / "docs/how-to/shipped-catalog.md").read_text()
    for name in UNTESTED:
        image = (environments[name].source or "").removeprefix("docker://")
        assert f"| `{name}` | {image} |" in page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_clean(path: Path) -> None:
    text = path.read_text()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert len(text) < 20_000
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert "outputs" in cell or cell.cell_type == "markdown"
        assert max(map(len, cell.source.splitlines())) <= 110, cell.id
    first = notebook.cells[0]
    assert first.cell_type == "markdown" and first.source.startswith("# ")
    assert "minute" in first.source and "TensorBoard" in first.source
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name in ("python3", "ir")


def test_what_several_notebooks_have_is_the_same_in_all() -> None:
    """Each stands alone, so the writer of TensorBoard's files is in several."""
    shared: dict[str, set[str]] = {}
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            for tag in cell["metadata"].get("tags", ()):
                shared.setdefault(tag, set()).add("".join(cell["source"]))
    assert set(shared) == {"tensorboard-writer", "drawing"}
    assert all(len(sources) == 1 for sources in shared.values())


def test_the_starter_that_opens_draws_a_picture(environments: dict[str, Environment]) -> None:
    for environment in environments.values():
        if environment.name in UNTESTED:
            continue
        text = (STARTERS / environment.starters[0]).read_text()
        assert "draw(" in text.replace("def draw(", "") or "hist(" in text, environment.name


@pytest.mark.parametrize("curves", [{"a": [3.0, 1.0, 2.0], "b": [0.5]}, {"flat": [1.0, 1.0]}])
def test_without_matplotlib_the_picture_is_plain(
    curves: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown: list[Any] = []
    names = tagged("drawing")
    names["display"] = shown.append
    names["draw"]("Loss", curves)
    (svg,) = (ElementTree.fromstring(picture.data) for picture in shown)
    lines = svg.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [*map(len, curves.values())]
    texts = [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0].startswith("Loss: ") and texts[1:] == list(curves)


def tagged(tag: str) -> dict[str, Any]:
    """The names that the cell of this tag defines."""
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            if tag in cell["metadata"].get("tags", ()):
                names: dict[str, Any] = {}
                exec("".join(cell["source"]), names)
                return names
    raise AssertionError("no notebook has it")


def test_tensorboard_reads_what_the_notebooks_write(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = tagged("tensorboard-writer")["SummaryWriter"](str(tmp_path / "run"))
    for step, value in ((0, 0.5), (127, -1.25), (128, 0.0), (3_000_000_000, 1e30)):
        board.add_scalar("Wärme/°C", value, step)
    board.close()
    found = EventAccumulator(str(tmp_path / "run"))
    found.Reload()
    assert found.Tags()["scalars"] == ["Wärme/°C"]
    read = [(one.step, one.value) for one in found.Scalars("Wärme/°C")]
    assert read[:3] == [(0, 0.5), (127, -1.25), (128, 0.0)]
    assert read[3] == (3_000_000_000, pytest.approx(1e30))
