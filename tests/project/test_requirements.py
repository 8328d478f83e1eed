"""Every package that the product imports is declared by the distribution that imports it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from portal.demo.showcase.models import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {
    "pyproject.toml": ("portal", "spawners", "deploy"),
    "kernels/pyproject.toml": ("kernels/portal_session",),
}
# Imported by these files alone, which nothing loads without the extra's packages.
FILES_OF_EXTRAS = {
    "oidc": ("portal/directory/oidc.py",),
    "otel": ("portal/logs/tracing.py",),
    "tensorboard": (
        "kernels/portal_session/tensorboard/",
        "kernels/portal_session/programs/proxy.py",
        "kernels/portal_session/runs/tracking/event_reader.py",
    ),
    "dask": (
        "kernels/portal_session/clusters/dask/cluster.py",
        "kernels/portal_session/clusters/dask/kept.py",
    ),
    "ray": ("kernels/portal_session/clusters/ray/cluster.py",),
}
# Imported within functions, in an environment that has them; portal-session brings none of them.
OF_THE_ENVIRONMENT = {
    "distributed": "Dask, of notebooks that make a cluster, and its workers",
    "cloudpickle": "functions of cells, which portal_train sends to the ranks of a run",
    "debugpy": "the debugger of the kernel's own Python, which loads it first",
    "json5": "JupyterLab's reader of settings; without it nobody can tell if they are damaged",
    "jupyter_lsp": "language servers, in environments that have JupyterLab's extension for them",
    "jupyterlab": "an image keeps its own; without it the session ends with a sentence",
    "marimo": "only its own program imports it, whose modules are changed",
    "numpy": "arrays of programs and cells that use it",
    "ray": "Ray, of notebooks that make a cluster, and its workers",
    "tensorflow": "tensors of cells that use it",
    "torch": "tensors of programs and cells that use it",
}
# Executed as points of runs, which find the session's modules for their sources.
SOURCES_OF_RUNS = "deploy/demo/showcase/"
FOR_SOURCES = {
    path.stem for path in (ROOT / "kernels/portal_session/runs/library").glob("portal_*.py")
}
# Executed by users: `missing_imports` compares them with the environments that ship them.
OF_USERS = ROOT / "deploy/environments/starters"
# Executed in an environment of the demo: `test_a_served_model_s_environment_has_its_imports`.
SERVED = ROOT / "deploy/demo/models"
# Modules, and the word in an image's reference that says that the image has them.
IN_IMAGES = {"torch": "pytorch", "torchvision": "pytorch"}
NOT_IMPORTED = {
    "jupyterhub-idle-culler": "a program, which the Hub runs as a service",
    "psycopg": "imported by SQLAlchemy, for a database of PostgreSQL",
    "uv": "a program, which installs packages into images",
}


class Import(NamedTuple):
    """Import of ``name``, the first part of a foreign module, at ``place``."""

    name: str
    file: str
    place: str
    in_function: bool


def imports_of(source: str, file: str) -> Iterator[Import]:
    """Yield the imports of ``source``, those by ``importlib.import_module`` too."""
    tree = ast.parse(source)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, functions)
              for part in ast.walk(node)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [] if node.level else [str(node.module)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            first = node.args[0]
            names = [str(first.value)] if isinstance(first, ast.Constant) else []
        else:
            continue
        for name in names:
            yield Import(name.split(".")[0], file, f"{file}:{node.lineno}", id(node) in inside)


@cache
def foreign_imports(project: str) -> tuple[Import, ...]:
    """Return the imports of packages that are neither Python's nor of the project itself."""
    paths = [path for room in PROJECTS[project] for path in sorted((ROOT / room).rglob("*.py"))]
    paths = [path for path in paths if path.parent not in (OF_USERS, SERVED)]
    own = {path.stem for path in paths if path.parent.name == "library"}  # beside a run's source
    own |= {Path(room).name for room in PROJECTS[project]} | set(sys.stdlib_module_names)
    found = [
        item for path in paths for item in imports_of(path.read_text(), str(path.relative_to(ROOT)))
    ]
    return tuple(
        item
        for item in found
        if item.name not in own
        and not (item.name in FOR_SOURCES and item.file.startswith(SOURCES_OF_RUNS))
    )


@cache
def declared(project: str) -> dict[str, set[str]]:
    """Return the names of the packages that are required: by extra, and always (under "")."""
    table: dict[str, Any] = tomllib.loads((ROOT / project).read_text())["project"]
    lists = {"": table["dependencies"], **table["optional-dependencies"]}
    return {
        extra: {canonicalize_name(Requirement(text).name) for text in texts}
        for extra, texts in lists.items()
        if extra != "test"
    }


@cache
def distributions() -> dict[str, set[str]]:
    """Return the installed packages that have a module, by its name."""
    found = packages_distributions()
    return {name: {canonicalize_name(text) for text in texts} for name, texts in found.items()}


def undeclared(item: Import, required: dict[str, set[str]]) -> str:
    """Return why an import may fail where the project is installed; "" if it cannot."""
    packages = distributions().get(item.name, set())
    if packages & required[""]:
        return ""
    for extra, names in required.items():
        if packages & names and item.file.startswith(FILES_OF_EXTRAS.get(extra, ())):
            return ""
    if item.name in OF_THE_ENVIRONMENT and item.file.startswith("kernels/"):
        return "" if item.in_function else f"{item.place} imports {item.name}, not in a function"
    return f"{item.place} imports {item.name}"


@pytest.mark.parametrize("project", PROJECTS)
def test_every_import_is_declared(project: str) -> None:
    required = declared(project)
    wrong = [why for item in foreign_imports(project) if (why := undeclared(item, required))]
    assert not wrong, f"not in {project}:\n" + "\n".join(wrong)


def test_a_served_model_s_environment_has_its_imports() -> None:
    has = {*PACKAGES, "pydantic", *sys.stdlib_module_names}  # FastAPI brings pydantic
    found = [
        item
        for path in sorted(SERVED.glob("*.py"))
        for item in imports_of(path.read_text(), str(path.relative_to(ROOT)))
    ]
    assert found
    assert [item.place for item in found if item.name not in has] == []


def missing_imports(environment: dict[str, Any], folder: Path) -> list[str]:
    """Return the imports of an environment's starter scripts that neither Python, the scripts that
    are copied with them, the session, nor the image has."""
    scripts = [name for name in environment.get("starters", ()) if name.endswith(".py")]
    beside = {Path(name).stem for name in scripts}
    words = set(re.split(r"[/:@]", environment.get("source") or ""))
    return [
        f"{environment['name']}: {item.place} imports {item.name}"
        for name in scripts
        for item in imports_of((folder / name).read_text(), name)
        if item.name not in sys.stdlib_module_names
        and item.name not in beside
        and not (item.name in FOR_SOURCES and item.in_function)  # in runs alone
        and IN_IMAGES.get(item.name) not in words
    ]


def test_starter_scripts_import_what_their_environment_has() -> None:
    files = sorted(OF_USERS.parent.glob("*.yaml"))
    environments = [yaml.safe_load(path.read_text()) for path in files]
    shipped = {name for each in environments for name in each.get("starters", ())}
    assert {path.name for path in OF_USERS.glob("*.py")} <= shipped
    wrong = [why for each in environments for why in missing_imports(each, OF_USERS)]
    assert not wrong, "\n".join(wrong)


def test_a_missing_import_of_a_starter_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import os, torch, pandas\nimport b\nimport portal_metrics\n"
        "def f():\n    import portal_metrics\n"
    )
    (tmp_path / "b.py").write_text("")
    with_torch = {"name": "e", "source": "docker://nvcr.io/nvidia/pytorch:25.10-py3"}
    wrong = {
        "pandas, b, portal_metrics": {**with_torch, "starters": ["a.py", "x.ipynb"]},
        "pandas, portal_metrics": {**with_torch, "starters": ["a.py", "b.py"]},
        "torch, pandas, portal_metrics": {
            "name": "e", "source": "docker://python:3", "starters": ["a.py", "b.py"]
        },
    }  # fmt: skip
    for names, environment in wrong.items():
        found = [why.split()[-1] for why in missing_imports(environment, tmp_path)]
        assert ", ".join(found) == names


@pytest.mark.parametrize("project", PROJECTS)
def test_everything_declared_is_imported(project: str) -> None:
    names = {item.name for item in foreign_imports(project)}
    imported = set().union(*(distributions().get(name, set()) for name in names))
    assert declared(project)[""] - imported - NOT_IMPORTED.keys() == set()
    if project == "pyproject.toml":
        assert NOT_IMPORTED.keys() & imported == set()


def test_the_exceptions_are_imported() -> None:
    names = {item.name for project in PROJECTS for item in foreign_imports(project)}
    assert set(OF_THE_ENVIRONMENT) <= names
    assert all((ROOT / file).exists() for files in FILES_OF_EXTRAS.values() for file in files)


@pytest.mark.parametrize("project", PROJECTS)
def test_contributing_says_why_each_is_there(project: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("\n## Dependencies and their purpose\n")[2].partition("\n## ")[0]
    assert section
    words = {canonicalize_name(word.rstrip(".")) for word in re.findall(r"[\w.-]+", section)}
    assert declared(project)[""] - words == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import zmq.asyncio", ["zmq"]),
        ("from a.b import c", ["a"]),
        ("from .b import c\nfrom . import d", []),
        ("import importlib\nx = importlib.import_module('torch.cuda')", ["importlib", "torch"]),
        ("x = importlib.import_module(name)", []),
    ],
)
def test_imports_are_found(source: str, names: list[str]) -> None:
    assert [item.name for item in imports_of(source, "x.py")] == names


def test_an_import_of_the_environment_must_be_within_a_function() -> None:
    (outside,) = imports_of("import torch", "kernels/portal_session/x.py")
    (within,) = imports_of("def f():\n    import torch", "kernels/portal_session/x.py")
    assert "not in a function" in undeclared(outside, {"": set()})
    assert undeclared(within, {"": set()}) == ""
