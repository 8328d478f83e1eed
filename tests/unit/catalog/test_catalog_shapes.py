"""What a definition's fields must look like is said in words, not as regular expressions."""

from __future__ import annotations

import re

import pytest

from portal.catalog.definitions.problems import explained
from portal.models.catalog.environment import Environment

KERNEL = {"name": "r", "title": "R", "language": "r"}
GOOD = {"name": "torch", "title": "Torch", "kind": "container", "image": "/a.sif"}


@pytest.mark.parametrize(
    ("field", "values", "words"),
    [
        ("name", {"name": "Not A Name"}, "lowercase letters"),
        ("default.memory", {"default": {"memory": "lots"}}, "32G or 512M"),
        ("default.partition", {"default": {"partition": "-x"}}, "Slurm name"),
        ("max_time", {"max_time": "1 hour"}, "2:00:00"),
        ("min_cuda", {"min_cuda": "new"}, "12.4"),
        ("image", {"image": "a.sif"}, "absolute path"),
        ("digest", {"digest": "md5:1"}, "sha256"),
        ("binds.0.source", {"binds": [{"source": "data"}]}, "absolute path"),
        (
            "kernels.0.name",
            {"kernels": [KERNEL | {"name": "a b"}]},
            "letters",
        ),
        (
            "kernels.0.language",
            {"kernels": [KERNEL | {"language": "r s"}]},
            "word",
        ),
        ("modules.0", {"modules": ["a b"]}, "gcc/14.2"),
        ("starters.0", {"starters": ["../a"]}, "pytorch.ipynb"),
        ("courses.0", {"courses": ["A B"]}, "course"),
        ("variables.a-b", {"variables": {"a-b": "1"}}, "underscores"),
        ("icon", {"icon": "<b>"}, "dashes"),
    ],
)
def test_what_a_field_must_look_like(field, values, words):
    with pytest.raises(ValueError) as raised:
        Environment.model_validate(GOOD | values)
    (found,) = explained(raised.value)
    assert found.field == field and found.message.startswith(f"'{field}' must be ")
    assert words in found.message and not re.search(r"[\^$]|pattern", found.message)
