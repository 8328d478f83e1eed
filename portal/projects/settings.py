"""Settings of the site for projects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from traitlets import Bunch, Dict, Enum, Integer, TraitError, Unicode, Union, validate
from traitlets.config import LoggingConfigurable

from portal.models import Frozen
from portal.setting import setting

_WORDS = ("admin", "policy", "off")


class Policy(Frozen):
    """Policy of the site: who approves a project, and what within. ``accounts``: name patterns."""

    by: Literal["admin", "policy", "off"] = "admin"
    budget: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] = 1000.0
    members: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 50
    accounts: tuple[str, ...] = ()


class Projects(LoggingConfigurable):
    """Projects: their approval, and where their folders are."""

    approval = setting(
        Union([Enum(_WORDS), Dict()], default_value="admin"),
        """Approval of a project that a user requests: "admin" (by users with the scope
        `custom:portal:projects:manage`), "policy" (none is needed within the limits) or "off" (only
        these users create projects). With limits it is a dictionary of this word as "by", and of
        "budget" (GPU-hours, default 1000; a project without a budget needs an admin), "members"
        (default 50; owners cannot add more without an admin, whatever "by" is) and "accounts" of
        Slurm, as name patterns, to which a project may be charged if Slurm lets its owner use them
        (default: each such account).""",
        """c.Projects.approval = {
    "by": "policy",
    "budget": 500,
    "members": 20,
    "accounts": ["bio", "physics-*"],
}""",
    )

    # Projects that a user other than an admin owns or requests at a time.
    per_user = Integer(20)

    root = setting(
        Unicode(""),
        """Directory with a folder for each project, called like the project, which nodes see at the
        same path. Its sessions see an existing folder: read-only those of readers. Empty: projects
        have no folders.""",
        'c.Projects.root = "/projects"',
    ).tag(backup="")  # members' own files

    @property
    def policy(self) -> Policy:
        """Policy that ``approval`` says."""
        return _policy(self.approval)

    @validate("approval")
    def _check_approval(self, proposal: Bunch) -> Any:
        _policy(proposal["value"])
        return proposal["value"]


def _policy(value: str | dict[str, Any]) -> Policy:
    """Return the policy of a word or a dictionary. Raises TraitError that names what is wrong."""
    if isinstance(value, str):
        value = {"by": value}
    accounts = value.get("accounts", ())
    if isinstance(accounts, str):
        raise TraitError("c.Projects.approval: 'accounts' must be a list of name patterns.")
    try:
        return Policy(**value | {"accounts": tuple(accounts)})
    except (ValidationError, TypeError) as error:
        problem = error.errors()[0] if isinstance(error, ValidationError) else None
        where = ".".join(str(part) for part in problem["loc"]) if problem else "accounts"
        what = problem["msg"] if problem else str(error)
        raise TraitError(f"c.Projects.approval: '{where}': {what}.") from error
