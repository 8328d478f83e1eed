"""Words for what a field of a model should be, for the end of the sentence "'x' must be …"."""

from __future__ import annotations

from pydantic import BaseModel


def should_be(model: type[BaseModel], name: str) -> str:
    """Return what a field should be: its description or, if it has none, what its type and limits
    say of a number or of true and false."""
    field = model.model_fields[name]
    if field.description:
        return field.description[0].lower() + field.description[1:]
    if field.annotation is bool:
        return "true or false"
    least = next(limit.ge for limit in field.metadata if hasattr(limit, "ge"))
    most = next(limit.le for limit in field.metadata if hasattr(limit, "le"))
    return f"a whole number from {least} to {most:,}"
