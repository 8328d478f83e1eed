"""The YAML that the portal writes is read back as the very same values."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from portal.catalog.definitions.document import read_document
from portal.catalog.definitions.reading import read_definition
from portal.catalog.definitions.rules import CatalogRules
from portal.catalog.definitions.yaml_text import definition_of, document_text, yaml_text
from portal.models.catalog.catalog import EnvironmentVersion
from portal.models.catalog.environment import Environment

BASE: dict[str, Any] = {"name": "one", "title": "One", "kind": "venv", "path": "/opt/one"}

# What another reader of YAML, or a careless writer, would make something else of.
HOSTILE = [
    "", " ", "~", "null", "true", "False", "no", "on", "yes", "1", "-1", "1.5", ".5", "1e3", "0x1f",
    "0o7", "1_000", "2:00:00", "2025-10-01", ".inf", ".nan", "- a", "-", "?", "? a", ":", "a: b",
    "a:", "a #b", "#a", "&a", "*a", "!a", "!!str a", "|", ">", "%a", "@a", "`a", "'", '"', "'a'",
    '"a"', "a'b\"c", "\\", "\\n", "{a}", "[a]", "{", "]", ",", "a, b", "---", "--- a", "...", "<<",
    "=", " a", "a ", "\ta", "a\t", "a\nb", "a\n", "a\n\n", "\na", "\n\na", "\n", "\n\n", " \n",
    " a\nb", "a\n  b\nc", "a\n\n\nb\n\n", "a \nb", "a\tb\nc", "a\r\nb", "a\rb", "\r", "a\x85b\nc",
    "a\u2028b\nc", "a\u2029b", "\ufeffa", "a\ufeffb\nc", "\x7f", "\x9f", "\u200b", "\u202e",
    "\U0001f600", "a\U0001f600\nb", "\ufffe", "ä\nö", "---\nname: other\n", "...\n", "# no\nyes",
    "x" * 5000, "word " * 2000, ("line\n" * 500), "a" * 300 + "\n" + "b" * 300,
    "|\n  a", "a\n---\nb",
    "a\n...\nb", "\n  a\n b", "  \n  a", "a\n ", "a\n \n", "${x}", "$(x)", "<script>", "\x1b[31m",
    "\x07", "Yes", "NULL", "Null", "+1", "1.", "1.e5", "-.5e+10", "9" * 30, "key: |\n  x",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_every_text_comes_back_as_it_was(text: str) -> None:
    values = {
        "text": text,
        "list": [text, text],
        "mapping": {"key": text, "other": [{"deep": text}]},
        "after": 1,
    }
    assert read_document(document_text(values).encode()).data == values


@pytest.mark.parametrize(
    "key", [k for k in HOSTILE if 0 < len(k) < 100] + ["x" * 200, "a b"], ids=ascii
)
def test_every_key_comes_back_as_it_was(key: str) -> None:
    values = {key: "x", "after": {key: [1]}}
    assert read_document(document_text(values).encode()).data == values


def test_text_of_chance_comes_back() -> None:
    chance = random.Random(5)
    letters = "ab \n\t:#-'\"\\|>&*!%@`{}[],?~ä\u2028\x85\r\U0001f600\x00"[:-1]
    for _ in range(2000):
        text = "".join(chance.choices(letters, k=chance.randrange(12)))
        values = {"a": text, "b": [text], "c": {"d": text}}
        assert read_document(document_text(values).encode()).data == values, ascii(text)


@pytest.mark.parametrize(
    "value", [0, -5, 10**15, 1.5, True, False, None, [], {}, [[]], [{}]], ids=str
)
def test_other_values_come_back(value: Any) -> None:
    values = {"a": value, "b": [value, {"c": value}]}
    assert read_document(document_text(values).encode()).data == values


FULL: dict[str, Any] = {
    "name": "pytorch",
    "title": "PyTorch: 25.10 #1",
    "kind": "container",
    "description": "# PyTorch\n\nWith **CUDA**.\n\n- fast\n- `a: b`\n",
    "icon": "pytorch",
    "tags": ["pytorch", "no", "25.10"],
    "source": "docker://nvcr.io/nvidia/pytorch:25.10-py3",
    "image": "/shared/images/x.sif",
    "digest": "sha256:" + "0" * 64,
    "server": "beside",
    "python": "/usr/bin/python3",
    "kernels": [{"name": "python3", "title": "Python 3", "language": "python"}],
    "starters": ["mnist.ipynb"],
    "opens": ["marimo"],
    "binds": [{"source": "/data"}, {"source": "/scratch", "read_only": False}],
    "variables": {"NCCL_DEBUG": "no", "OMP_NUM_THREADS": "4"},
    "groups": ["gpu-users"],
    "courses": ["dl101"],
    "state": "deprecated",
    "message": "Use 25.11.",
    "gpu_types": ["v100"],
    "min_driver": "535.104",
    "min_cuda": "12.4",
    "default": {"gpus": 0, "cpus": 8, "memory": "32G", "time": "4:00:00"},
    "max_gpus": 0,
    "max_cpus": 64,
    "max_memory": "1T",
    "max_time": "1-00:00:00",
    "idle_time": "0:30:00",
    "order": 10,
}


@pytest.mark.parametrize("values", [BASE, FULL], ids=["least", "all"])
def test_an_environment_comes_back(values: dict[str, Any]) -> None:
    environment = Environment.model_validate(values)
    text = yaml_text(environment)
    reading = read_definition(text.encode(), "x.yaml", CatalogRules(), 65536)
    assert reading.errors == ()
    assert reading.environment == environment
    assert yaml_text(reading.environment) == text
    # No GPUs, said on purpose, stays said.
    assert reading.environment.default.model_fields_set == environment.default.model_fields_set


def test_the_same_environment_always_gives_the_same_text() -> None:
    said = Environment.model_validate({**BASE, "tags": [], "image": None, "order": 100})
    assert yaml_text(said) == yaml_text(Environment.model_validate(dict(reversed(BASE.items()))))


def test_every_key_of_the_model_is_in_the_text() -> None:
    """A new key that is not written would be lost at the next save."""
    left = set(Environment.model_fields) - set(FULL) - {"path", "modules", "private", "owner"}
    assert not left
    assert list(definition_of(Environment.model_validate(FULL))) == [
        name for name in Environment.model_fields if name in FULL
    ]


def test_it_looks_as_a_person_would_write_it() -> None:
    assert yaml_text(Environment.model_validate(FULL | {"groups": [], "server": "inside"})) == (
        "name: pytorch\n"
        "title: 'PyTorch: 25.10 #1'\n"
        "kind: container\n"
        "description: |\n"
        "  # PyTorch\n\n"
        "  With **CUDA**.\n\n"
        "  - fast\n"
        "  - `a: b`\n"
        "icon: pytorch\n"
        "tags: [pytorch, no, '25.10']\n"
        "source: docker://nvcr.io/nvidia/pytorch:25.10-py3\n"
        "image: /shared/images/x.sif\n"
        f"digest: sha256:{'0' * 64}\n"
        "python: /usr/bin/python3\n"
        "kernels:\n"
        "  - name: python3\n"
        "    title: Python 3\n"
        "    language: python\n"
        "starters: [mnist.ipynb]\n"
        "opens: [marimo]\n"
        "binds:\n"
        "  - source: /data\n"
        "  - source: /scratch\n"
        "    read_only: false\n"
        "variables:\n"
        "  NCCL_DEBUG: no\n"
        "  OMP_NUM_THREADS: '4'\n"
        "courses: [dl101]\n"
        "state: deprecated\n"
        "message: Use 25.11.\n"
        "gpu_types: [v100]\n"
        "min_driver: '535.104'\n"
        "min_cuda: '12.4'\n"
        "default:\n"
        "  gpus: 0\n"
        "  cpus: 8\n"
        "  memory: 32G\n"
        "  time: 4:00:00\n"
        "max_gpus: 0\n"
        "max_cpus: 64\n"
        "max_memory: 1T\n"
        "max_time: 1-00:00:00\n"
        "idle_time: 0:30:00\n"
        "order: 10\n"
    )


def test_who_edits_a_version_says_nothing_that_nobody_has_said() -> None:
    environment = Environment.model_validate(BASE | {"default": {"cpus": 4}})
    version = EnvironmentVersion(
        id=1, name="one", number=1, state="draft", environment=environment, author="x", at=1,
        origin="page",
    )  # fmt: skip
    shown = json.loads(version.model_dump_json())["environment"]
    assert (shown["default"], shown["groups"]) == ({"cpus": 4}, [])
    assert yaml_text(Environment.model_validate(shown)) == yaml_text(environment)
