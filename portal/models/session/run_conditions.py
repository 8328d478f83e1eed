"""Conditions under which the points of a run are executed, as one of them reports them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from .. import Frozen
from .run import Digest

MOST_PACKAGES = 3_000


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed")
    return text


Fact = Annotated[str, StringConstraints(max_length=200), AfterValidator(_printable)]
Packages = Annotated[tuple[Fact, ...], Field(max_length=MOST_PACKAGES)]
Commit = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{7,64})?$")]


class Software(Frozen):
    """Python that executes a point: its version, and its packages as "name==version"."""

    python: Fact = ""
    packages: Packages = ()


class Conditions(Frozen):
    """Conditions that decide a result beside the parameters; "" is not known.

    ``script``: digest of the notebook or script; ``image``: of the container; ``gpus``: their
    number and type in words, "none" without; ``driver``: of the GPUs; ``slurm``: its version;
    ``commit``: of the script's git repository, from which the folder ``differs`` if it had
    uncommitted changes.
    """

    script: Digest = ""
    image: Digest = ""
    kernel: Fact = ""
    gpus: Fact = ""
    driver: Fact = ""
    slurm: Fact = ""
    commit: Commit = ""
    differs: Annotated[bool, Field(strict=True)] = False


class RunConditions(Frozen):
    """Conditions of a run."""

    conditions: Conditions = Conditions()
    software: Software = Software()
