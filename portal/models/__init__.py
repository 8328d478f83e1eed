"""Frozen pydantic models, one noun a file. No I/O and no import of the rest of the portal."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: immutable, compared by content, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
