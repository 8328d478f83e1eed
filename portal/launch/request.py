"""A launch request: validated environment + resources, before it becomes a session.

The one door for what a user asks for. The launch page, the REST API and links all hand over a
plain dict of ``user_options``; nothing that has not passed here reaches sbatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ..errors import InvalidRequest
from ..models import Frozen
from ..models.environment import Environment
from ..models.resources import Resources
from .course import CHOSEN, OPTION, CourseSession, split_course

# What a session gets where neither the person, the environment nor the site says anything.
DEFAULT_RESOURCES = {"cpus": 2, "memory": "4G", "time": "2:00:00"}
OPTION_KEYS = (OPTION, "environment", *Resources.model_fields)

_SHOULD_BE = {
    "environment": "the name of an environment",
    "gpus": "a whole number, 0 or more",
    "gpu_type": "a GPU type such as 'v100'",
    "cpus": "a whole number, 1 or more",
    "memory": "a size such as '4G'",
    "time": "a time such as '2:00:00'",
    "partition": "the name of a partition",
    "account": "the name of a Slurm account",
    "qos": "the name of a QOS",
    "reservation": "the name of a reservation",
    "nodes": "a whole number, 1 or more",
}


class LaunchRequest(Frozen):
    """What one session will be: an environment this person may use, and complete resources.

    ``tensorboard``: the log folders of a TensorBoard of its own, absolute; none: JupyterLab.
    ``course``: what it belongs to; None: it is the person's own.
    """

    environment: Environment
    resources: Resources
    tensorboard: tuple[str, ...] = ()
    course: CourseSession | None = None

    def options(self) -> dict[str, Any]:
        """The ``user_options`` that ask for the same again: only known keys, JSON values."""
        chosen = self.resources.model_dump(exclude_none=True)
        if self.course is not None:
            # Account, partition and reservation are the course's, and others at the next meeting.
            mine = {key: chosen[key] for key in chosen if key in CHOSEN}
            return {OPTION: self.course.course, "environment": self.environment.name, **mine}
        shown = {"tensorboard": list(self.tensorboard)} if self.tensorboard else {}
        return {"environment": self.environment.name, **chosen, **shown}


def read_options(options: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Check the shape of ``user_options``.

    Returns the environment's name (None where none is named) and the resource keys as given,
    each valid. A course is for ``split_course`` to take out; it is only looked at here. Raises
    InvalidRequest naming the first key that is wrong.
    """
    if not isinstance(options, Mapping):
        raise InvalidRequest("The options of a session must be a JSON object.")
    for key in options:
        if key not in OPTION_KEYS:
            raise InvalidRequest(
                f"{_quoted(key)} is not an option of a session. The options are: "
                f"{', '.join(OPTION_KEYS)}.",
                field=str(key)[:60],
            )
    _, options = split_course(options)
    given = {key: value for key, value in options.items() if value is not None and value != ""}
    environment = given.pop("environment", None)
    if environment is not None and not isinstance(environment, str):
        raise InvalidRequest(
            f"'environment' must be {_SHOULD_BE['environment']}.", field="environment"
        )
    try:
        Resources(**given)
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        raise InvalidRequest(
            f"'{field}' must be {_SHOULD_BE[field]}; {_quoted(given[field])} is not.", field=field
        ) from None
    return environment, given


def well_formed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``options`` that ``read_options`` accepts, each judged alone."""
    good = {}
    for key, value in options.items():
        try:
            read_options({key: value})
        except InvalidRequest:
            continue
        good[key] = value
    return good


def _quoted(value: object) -> str:
    """A short, printable form of something a user sent, for a sentence."""
    text = str(value)
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f"'{printable[:60]}{'…' if len(printable) > 60 else ''}'"
