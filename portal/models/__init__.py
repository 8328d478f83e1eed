"""Frozen pydantic models, one noun per file. No I/O, no imports from the rest of the portal."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict

_NO_FIELDS: set[str] = set()


class Frozen(BaseModel):
    """Immutable value, compared by content; unknown keys are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **values: Any) -> Self:
        """Build an instance without validation, from trusted values: for thousands of instances.

        They share one empty set of "fields that were set"; a set each would be most of a small
        model's memory, and of the time that the garbage collector takes for it.
        """
        return cls.model_construct(_fields_set=_NO_FIELDS, **values)

    @classmethod
    def like(cls, source: object, /, **values: Any) -> Self:
        """Build an instance of ``values`` and, for the other fields, of the attributes of
        ``source`` that have their names."""
        others = cls.model_fields.keys() - values.keys()
        own = {name: getattr(source, name) for name in others if hasattr(source, name)}
        return cls(**own, **values)

    def altered(self, **values: Any) -> Self:
        """Return a copy with other values, not validated either (``trusted``). Sets what
        BaseModel.__copy__ sets, in a fifth of the time of model_copy."""
        copy = type(self).__new__(type(self))
        put = object.__setattr__
        put(copy, "__dict__", self.__dict__ | values)
        put(copy, "__pydantic_fields_set__", _NO_FIELDS)
        put(copy, "__pydantic_extra__", None)
        put(copy, "__pydantic_private__", None)
        return copy
