"""A field that the portal's table does not have, put into it: it must be offered everywhere."""

from __future__ import annotations

import sys

import pytest
from pydantic.fields import FieldInfo

from portal.launch import fields
from portal.launch.fields import Field
from portal.models.session.resources import Resources

TOY = Field(
    "licenses",
    "Licenses",
    "the names of licenses",
    folded=True,
    example="Licenses such as matlab:2",
    moved=True,
    in_spaces=True,
)


def add_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Append TOY to the table, wherever that is read."""
    table = fields.FIELDS
    for module in list(sys.modules.values()):
        if getattr(module, "FIELDS", None) is table:
            monkeypatch.setattr(module, "FIELDS", (*table, TOY))
    monkeypatch.setattr(Resources, TOY.name, None, raising=False)
    monkeypatch.setitem(Resources.model_fields, TOY.name, FieldInfo(default=None))
