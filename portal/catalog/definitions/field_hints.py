"""Hints on the format of a definition's fields, where pydantic names a regular expression."""

from __future__ import annotations

from portal.models.catalog.environment import VERSION
from portal.models.session.resources import MEMORY, SLURM_NAME, TIME

_PATTERNS = {
    MEMORY: "must be a size such as 32G or 512M",
    TIME: "must be a time such as 2:00:00 or 1-00:00:00",
    VERSION: "must be a version such as 12.4",
    SLURM_NAME: "must be a Slurm name",
    # Of models (portal/work/endpoint/bodies.py).
    r"^/[!-~]*$": "must begin with '/' and have no spaces",
    r"^(~|/)[^\x00]*$": "must begin with '/' or '~'",
}
_PATH = "must be an absolute path without ',' and ':'"
_FIELDS = {
    "name": "must be lowercase letters, digits, dots, dashes and underscores, at most 63, with a "
    "letter or digit at both ends",
    "icon": "must be lowercase letters, digits and dashes",
    "digest": "must be 'sha256:' and 64 hexadecimal digits",
    "image": _PATH,
    "python": _PATH,
    "path": _PATH,
    "source": _PATH,
    "target": _PATH,
    "modules": "must be the name of a module, such as gcc/14.2",
    "starters": "must be the name of a notebook or script, such as pytorch.ipynb",
    "courses": "must be the name of a course",
    "language": "must be one word, such as python",
    "kernels": "must be letters, digits, dots, dashes and underscores",
    "variables": "must be one line, under a name of letters, digits and underscores",
}


def shape_of(place: tuple[str | int, ...], pattern: str) -> str:
    """Return the hint for the value at ``place``, which does not match ``pattern``; "" if there is
    none."""
    if pattern in _PATTERNS:
        return _PATTERNS[pattern]
    steps = [step for step in place if isinstance(step, str)]
    if len(steps) > 1 and steps[-1] in _FIELDS and steps[-1] != "name":
        return _FIELDS[steps[-1]]
    return _FIELDS.get(steps[0], "") if steps else ""
