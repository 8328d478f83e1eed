"""What a submitted launch form asks for: strings in, ``user_options`` out.

Whether it is allowed is for ``portal.launch.policy`` to say; here it only becomes readable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from portal.errors import InvalidRequest
from portal.launch.request import OPTION_KEYS

_NUMBERS = {"gpus": "GPUs", "cpus": "CPUs", "nodes": "nodes"}
_MEMORY = re.compile(r"([0-9]+)\s*([MGT])(?:i?B)?", re.IGNORECASE)


def options_from_form(formdata: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """``user_options`` of a submitted launch form: known keys only, numbers as int, no blanks.

    Raises InvalidRequest, naming the field, for what cannot be read; nothing else, whatever
    the browser sent.
    """
    options: dict[str, Any] = {}
    for field in OPTION_KEYS:
        text = _single(field, formdata.get(field))
        if not text:
            continue
        if field in _NUMBERS:
            # ASCII digits only: int() would also read "٣", "1_000" and " 3 ".
            if not re.fullmatch(r"[0-9]{1,6}", text):
                raise InvalidRequest(
                    f"'{field}' must be a whole number of {_NUMBERS[field]}, "
                    f"not '{_printable(text)}'.",
                    field=field,
                )
            options[field] = int(text)
        elif field == "memory" and (match := _MEMORY.fullmatch(text)):
            options[field] = f"{int(match[1])}{match[2].upper()}"
        else:
            options[field] = text
    if not options.get("gpus"):
        # The page always sends a type, also for a CPU session when scripts are off.
        options.pop("gpu_type", None)
    return options


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
    text = given.pop() if given else ""
    if len(text) > 256 or not text.isprintable():
        raise InvalidRequest(
            f"'{field}' is too long or has characters that cannot be used: '{_printable(text)}'.",
            field=field,
        )
    return text


def _printable(text: str) -> str:
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:40])
    return clean + ("\N{HORIZONTAL ELLIPSIS}" if len(text) > 40 else "")
