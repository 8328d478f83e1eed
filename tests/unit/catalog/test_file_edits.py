"""Publishing changes of an admin's file only what the new version does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from portal.catalog.definitions.document import read_document
from portal.catalog.definitions.file_edits import edited_text
from portal.catalog.definitions.yaml_text import definition_of, yaml_text
from portal.models.catalog.environment import Environment

FILE = """\
# Our PyTorch, see ticket 42.
# Owner: ada

title:   'PyTorch: 25.10'
name: pytorch   # never rename
kind: container
# What users read on the tile.
description: |  # markdown
  # PyTorch

  With CUDA.

# Tags are searched.
tags: [a,b]   # two
source: docker://x/y:1
order: 100  # the default, on purpose
# Who.
groups:
- gpu-users   # all
# the lab
- lab
# end of groups
max_memory: 1024G
binds:  # folders
  # data
  - source: /data   # read only
  # scratch
  - source: /scratch  # fast
    # for checkpoints
    read_only: false
variables:
  # debugging
  NCCL_DEBUG: on  # not a boolean
  OMP_NUM_THREADS: "4"

default:
  gpus: 1   # one is enough
  # plenty
  memory: 32G
  time: 4:00:00
max_time:   # none yet
# the end
"""
SHIPPED = sorted((Path(__file__).resolve().parents[3] / "deploy/environments").glob("*.yaml"))


def environment_of(text: str) -> Environment:
    return Environment.model_validate(read_document(text.encode()).data)


def edited(text: str, **changes: Any) -> str:
    """Return ``text`` after publishing it with ``changes``; None removes a key."""
    values = definition_of(environment_of(text)) | changes
    environment = Environment.model_validate(
        {name: value for name, value in values.items() if value is not None}
    )
    result = edited_text(text.encode(), environment)
    assert yaml_text(environment_of(result)) == yaml_text(environment)
    return result


def changed_lines(old: str, new: str) -> tuple[list[str], list[str]]:
    """Return the lines that are only in ``old``, and only in ``new``, in order."""
    before, after = old.splitlines(), new.splitlines()
    return [x for x in before if x not in after], [x for x in after if x not in before]


@pytest.mark.parametrize("text", [FILE, *(path.read_text() for path in SHIPPED)], ids=str.split)
def test_nothing_changes_without_a_change(text: str) -> None:
    assert edited(text) == text


@pytest.mark.parametrize(
    ("changes", "gone", "added"),
    [
        # The comment at the end of the line stays, and the one above, which tells of it.
        ({"title": "New"}, ["title:   'PyTorch: 25.10'"], ["title:   New"]),
        ({"tags": ["a", "c"]}, ["tags: [a,b]   # two"], ["tags: [a, c]   # two"]),
        ({"max_time": "2:00:00"}, ["max_time:   # none yet"],
         ["max_time: 2:00:00   # none yet"]),
        ({"order": 5}, ["order: 100  # the default, on purpose"],
         ["order: 5  # the default, on purpose"]),
        ({"tags": None}, ["tags: [a,b]   # two"], []),
        # Blocks.
        ({"description": "One.\nTwo.\n"}, ["  # PyTorch", "  With CUDA."], ["  One.", "  Two."]),
        ({"description": "One."},
         ["description: |  # markdown", "  # PyTorch", "  With CUDA."],
         ["description: One.  # markdown"]),
        ({"tags": ["x" * 30, "y" * 30, "z" * 30]}, ["tags: [a,b]   # two"],
         ["tags:  # two", f"  - {'x' * 30}", f"  - {'y' * 30}", f"  - {'z' * 30}"]),
        # Items of lists, with comments between them.
        ({"groups": ["gpu-users", "new", "lab"]}, [], ["- new"]),
        ({"groups": ["new", "gpu-users", "lab"]}, [], ["- new"]),
        ({"groups": ["lab"]}, ["- gpu-users   # all"], []),
        ({"groups": ["gpu-users", "other"]}, ["- lab"], ["- other"]),
        ({"binds": [{"source": "/data"}, {"source": "/fast", "read_only": False}]},
         ["  - source: /scratch  # fast"], ["  - source: /fast  # fast"]),
        ({"binds": [{"source": "/data"}, {"source": "/scratch"}]}, ["    read_only: false"], []),
        ({"binds": [{"source": "/new", "read_only": False}, {"source": "/data"},
                    {"source": "/scratch", "read_only": False}]},
         [], ["  - source: /new"]),
        # Keys of mappings.
        ({"default": {"gpus": 1, "cpus": 8, "memory": "64G", "time": "4:00:00"}},
         ["  memory: 32G"], ["  cpus: 8", "  memory: 64G"]),
        ({"default": {"gpus": 1}}, ["  memory: 32G", "  time: 4:00:00"], []),
        ({"variables": {"NCCL_DEBUG": "off", "OMP_NUM_THREADS": "4"}},
         ["  NCCL_DEBUG: on  # not a boolean"], ["  NCCL_DEBUG: off  # not a boolean"]),
        # New keys follow the one that comes before them in the model.
        ({"server": "beside", "max_gpus": 2}, [], ["server: beside", "max_gpus: 2"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_only_the_change_is_written(
    changes: dict[str, Any], gone: list[str], added: list[str]
) -> None:
    assert changed_lines(FILE, edited(FILE, **changes)) == (gone, added)


def test_the_ends_of_lines_stay_those_of_the_file() -> None:
    changes = {"groups": ["new", "lab"], "server": "beside", "description": "One.\nTwo.\n"}
    expected = edited(FILE, **changes).replace("\n", "\r\n")
    assert edited(FILE.replace("\n", "\r\n"), **changes) == expected


def test_places_of_new_items_and_keys() -> None:
    text = edited(FILE, groups=["new", "gpu-users", "lab", "last"], server="beside")
    assert "# Who.\ngroups:\n- new\n- gpu-users   # all\n" in text
    assert "- lab\n- last\n# end of groups\n" in text
    assert "source: docker://x/y:1\nserver: beside\norder:" in text
    first = edited(FILE, binds=[{"source": "/new"}, {"source": "/data"}])
    assert (
        "binds:  # folders\n  - source: /new\n  # data\n  - source: /data   # read only\n" in first
    )
    default = edited("name: a\ntitle: A\nkind: venv\npath: /a\ndefault:\n  # x\n  time: 1:00:00\n",
                     default={"cpus": 2, "time": "1:00:00"})  # fmt: skip
    assert default.endswith("default:\n  cpus: 2\n  # x\n  time: 1:00:00\n")


def test_a_removed_section_takes_its_own_comments_along() -> None:
    text = edited(FILE, variables=None)
    assert changed_lines(FILE, text)[0] == [
        "variables:",
        "  # debugging",
        "  NCCL_DEBUG: on  # not a boolean",
        '  OMP_NUM_THREADS: "4"',
    ]
    assert "    read_only: false\n\ndefault:" in text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{name: a, title: A, kind: venv, path: /a}  # mine\n", "title: B\n"),
        ("? name\n: a\n? title\n: A\n? kind\n: venv\n? path\n: /a\n", "title\n: B\n"),
        ("name: a\ntitle: A\nkind: venv\npath: /a", "title: B\n"),
        ("---\nname: a\ntitle: A # x\nkind: venv\npath: /a\n...\n", "title: B # x\n"),
        ("\ufeffname: a\r\ntitle: A # x\r\nkind: venv\r\npath: /a\r\n", "title: B # x\r\n"),
        ('"name": a\n"title": "A" # x\n"kind": venv\n"path": /a\n', '"title": B # x\n'),
        ("name: a\ntitle: >-\n  A\n# x\nkind: venv\npath: /a\n", "title: B\n# x\n"),
        ("name: a\ntitle: A\n  long\n  one # x\nkind: venv\npath: /a\n", "title: B # x\n"),
    ],
    ids=ascii,
)
def test_other_forms_of_a_file(text: str, part: str) -> None:
    """A form that cannot be edited is written anew. ``edited`` compares definitions."""
    assert part in edited(text, title="B")


def test_a_file_that_is_no_environment_is_written_anew() -> None:
    environment = environment_of(FILE)
    for raw in (b"", b"\xff", b"name: [", b"- a\n", b"name: x\n", b"a: &b 1\nc: *b\n"):
        assert edited_text(raw, environment) == yaml_text(environment)


def test_changes_of_chance_are_read_back() -> None:
    """``edited`` compares; every comment outside of the lines that change is still there."""
    chance = random.Random(7)
    texts = ["One.", "a: b", "- x", "# no", "\nx\n", "a\nb\n", " lead\n", "'", '"', "yes", "5", "…"]
    for _ in range(60):
        groups = [chance.choice(["gpu-users", "lab", "new", "w"]) for _ in range(4)]
        binds = [{"source": f"/{chance.choice('abc')}"} for _ in range(3)]
        binds += [{"source": "/scratch", "read_only": False}, {"source": "/data"}]
        chance.shuffle(binds)
        changes: dict[str, Any] = {
            "title": chance.choice(["One", "a: b", "# no", "'", "yes", "5", "…"]),
            "description": chance.choice(texts),
            "message": chance.choice(["", "a: b", "x # y"]) or None,
            "groups": list(dict.fromkeys(groups[: chance.randrange(5)])) or None,
            "binds": binds[: chance.randrange(4)] or None,
            "variables": {"NCCL_DEBUG": chance.choice(texts[:3]), "NEW": "on"},
            "default": {"gpus": chance.randrange(3)},
        }
        names = chance.sample(sorted(changes), chance.randrange(1, 5))
        text = edited(FILE, **{name: changes[name] for name in names})
        for comment in ("# Our PyTorch", "# Owner", "# What users", "# markdown", "# Tags",
                        "# two", "# Who.", "# end of groups", "# the end"):  # fmt: skip
            assert comment in text, (names, changes, text)
