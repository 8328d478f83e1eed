"""Launch requests: what is asked for, parsed once, and what one session will be.

The only entry for what a person asks for. The launch page, the REST API, links, "the same again",
moves and estimates all pass a plain dict of ``user_options``: ``Asked.parse`` reads it, and
nothing else reaches sbatch. ``policy.decide`` makes a LaunchRequest of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator

from ..errors import InvalidRequest
from ..models import Frozen
from ..models.catalog.environment import Environment
from ..models.session.resources import Resources
from ..spaces.registry import space_options
from .fields import OF
from .kinds import USUAL, own_options, requested_kind
from .kinds.kind import AskedFor, Kind

# What a session gets where neither the person, the environment nor the site says anything.
DEFAULT_RESOURCES = {"cpus": 2, "memory": "4G", "time": "2:00:00"}
_LONGEST = 256  # characters of a form's field


def option_keys() -> tuple[str, ...]:
    """Return the keys of ``user_options`` that are no single kind's."""
    return (*space_options(), "environment", "kind", *OF)


class Asked(AskedFor):
    """Well-formed choice, to which nothing was added. ``kind``: what would run, with its own
    options."""

    kind: Kind = USUAL()

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Asked:
        """Parse ``user_options``; null and "" mean unset. Raises InvalidRequest, which names the
        first key that is wrong."""
        if not isinstance(options, Mapping):
            raise InvalidRequest("The options of a session must be a JSON object.")
        for key in options:
            if key not in option_keys() and key not in own_options():
                raise InvalidRequest(
                    f"{_quoted(key)} is not an option of a session. The options are: "
                    f"{', '.join(option_keys())}.",
                    field=str(key)[:60],
                )
        kind = requested_kind(options)
        given = {key: value for key, value in options.items() if value is not None and value != ""}
        environment = given.get("environment")
        if environment is not None and not isinstance(environment, str):
            raise InvalidRequest(
                "'environment' must be the name of an environment.", field="environment"
            )
        asked = {key: value for key, value in given.items() if key in OF}
        try:
            resources = Resources(**asked)
        except ValidationError as error:
            raise _complaint(str(error.errors()[0]["loc"][0]), asked) from None
        return cls(environment=environment, resources=resources, kind=kind)


class AskedResources(Resources):
    """Resources of a request."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_words(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Raise InvalidRequest with the sentence of a launch for a value that cannot be read."""
        try:
            return handler(values)
        except ValidationError as error:
            wrong = (str((*each["loc"], "")[0]) for each in error.errors())
            key = next((key for key in wrong if key in OF), "")
            if not key:
                raise
            raise _complaint(key, values) from None


def _complaint(key: str, values: Mapping[str, Any]) -> InvalidRequest:
    sentence = f"'{key}' must be {OF[key].should_be}; {_quoted(values[key])} is not."
    return InvalidRequest(sentence, field=key)


class LaunchRequest(Frozen):
    """Session to launch: an environment this person may use, and complete resources.

    ``kind``: what runs in it, with all that the Hub knows of it. ``partition_automatic``: the
    request did not name its partition.
    """

    environment: Environment
    resources: Resources
    kind: Kind = USUAL()
    partition_automatic: bool = False

    def options(self) -> dict[str, Any]:
        """Return ``user_options`` that ask for the very same: only known keys, JSON values."""
        chosen = self.resources.model_dump(exclude_none=True)
        return self.kind.options(self.environment.name, chosen)


def options_from_form(formdata: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return ``user_options`` of a submitted launch form or of a link: known keys only, no blanks.

    Raises InvalidRequest, naming the field, for what cannot be read; nothing else, whatever the
    browser sent.
    """
    return options_from_fields({key: _single(key, formdata.get(key)) for key in option_keys()})


def options_from_link(query: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the options of a link as far as they are well-formed, each judged alone."""
    fields: dict[str, str | int] = {}
    for key in option_keys():
        try:
            text = _single(key, query.get(key))
            options_from_fields({key: text})
        except InvalidRequest:
            continue
        fields[key] = text
    return well_formed(options_from_fields(fields))


def options_from_fields(fields: Mapping[str, str | int]) -> dict[str, Any]:
    """Return ``user_options`` of the fields of a form, as text or, if JSON had them so, as
    numbers. Raises InvalidRequest, naming the field."""
    options: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, int):
            options[name] = value
        elif text := _clean(name, value):
            options[name] = _of_text(name, text)
    if not options.get("gpus"):
        # The page always sends a type, also for a CPU session when scripts are off.
        options.pop("gpu_type", None)
    return options


def _of_text(name: str, text: str) -> int | str:
    field = OF.get(name)
    if field is None:
        return text
    try:
        return field.of_text(text)
    except ValueError:
        raise InvalidRequest(
            f"'{name}' must be a whole number of {field.counts}, not '{_printable(text)}'.",
            field=name,
        ) from None


def _single(field: str, values: Any) -> str:
    if values is None:
        return ""
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise InvalidRequest(f"'{field}' must be text.", field=field)
    given = {value.strip(" ") for value in values} - {""}
    if len(given) > 1:
        raise InvalidRequest(f"'{field}' was given more than once.", field=field)
    return given.pop() if given else ""


def _clean(field: str, text: str) -> str:
    text = text.strip(" ")
    if len(text) > _LONGEST or not text.isprintable():
        raise InvalidRequest(
            f"'{field}' is too long or has characters that cannot be used: '{_printable(text)}'.",
            field=field,
        )
    return text


def well_formed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of ``options`` that ``Asked.parse`` accepts, each judged alone."""
    good = {}
    for key, value in options.items():
        try:
            Asked.parse({key: value})
        except InvalidRequest:
            continue
        good[key] = value
    return good


def _printable(text: str, most: int = 40) -> str:
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:most])
    return clean + ("\N{HORIZONTAL ELLIPSIS}" if len(text) > most else "")


def _quoted(value: object) -> str:
    """Return a short, printable form of something that somebody sent, for a sentence."""
    return f"'{_printable(str(value), 60)}'"
