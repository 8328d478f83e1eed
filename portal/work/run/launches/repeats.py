"""Repetition of a run: a new run of the same points with the same frozen source, in a folder of its
own, which its first task makes (portal_session/runs/execution/repetition.py). Pure, but for the
names that are taken."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Collection

from portal.errors import Conflict
from portal.models.session.run import LONGEST_PATH, SPACE_KEYS, Run, RunOrigin
from portal.work.run.kind import Run as RunKind

from ..results.item import OF_OWNER

LONGEST_NAME = 60
_NUMBER = re.compile(r"-[0-9]{1,6}$")


def repeat(user: str, original: Run, name: str, id_: str = "") -> Run:
    """Return a new run of ``user`` that repeats ``original`` under this name, which is also that of
    its folder: beside the original's or, for another user, in ``runs`` of their home. ``id_``:
    its id, "" for a random one. Raises Conflict if the path of the folder is too long."""
    place = original.folder.rpartition("/")[0] if user == original.user else "~/runs"
    if len(f"{place}/{name}") > LONGEST_PATH:
        raise Conflict(f"The path of the folder of '{name}' would be too long.")
    id_ = id_ or str(uuid.uuid4())
    in_space = original.model_dump(include=set(SPACE_KEYS))
    return Run(
        id=id_,
        name=name,
        source=original.source,
        folder=f"{place}/{name}",
        points=original.points,
        at_once=original.at_once,
        keep_failed=original.keep_failed,
        resumes=original.resumes,
        ranks=original.ranks,
        origin=RunOrigin(id=original.id, user=original.user, folder=original.folder),
        version=original.version,
        digest=original.digest,
        code_digest=original.code_digest,
        **in_space,
        user=user,
        server=RunKind.server_name(id_),
        environment=original.environment,
        resources=_resources(user, original),
        created_at=time.time(),
    )


def _resources(user: str, original: Run) -> dict[str, object]:
    """Return the original's resources; for another user, without those of its owner alone."""
    own = () if user == original.user else OF_OWNER
    return {name: value for name, value in original.resources.items() if name not in own}


def free_name(original: Run, taken: Collection[str]) -> str:
    """Return NAME-2, NAME-3, …: the first that is not taken. A repetition counts on."""
    name = _NUMBER.sub("", original.name) if original.origin is not None else original.name
    number = 2
    while True:
        ending = f"-{number}"
        candidate = f"{name[: LONGEST_NAME - len(ending)]}{ending}"
        if candidate not in taken:
            return candidate
        number += 1
