"""The site's policy for projects, as it stands in a configuration."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from portal.projects.settings import Policy, Projects


def policy(approval: Any) -> Policy:
    return Projects(config=Config({"Projects": {"approval": approval}})).policy


def test_a_word_or_a_dictionary() -> None:
    assert Projects().policy == Policy(by="admin", budget=1000, members=50, accounts=())
    assert policy("off") == Policy(by="off")
    given = {"by": "policy", "budget": 500, "members": 20, "accounts": ["bio", "physics-*"]}
    assert policy(given) == Policy(
        by="policy", budget=500, members=20, accounts=("bio", "physics-*")
    )
    assert policy({"members": 7}).by == "admin"


@pytest.mark.parametrize(
    "wrong, named",
    [
        ("always", "approval"),
        ({"by": "always"}, "'by'"),
        ({"budget": -1}, "'budget'"),
        ({"budget": "500"}, "'budget'"),
        ({"budget": float("inf")}, "'budget'"),
        ({"members": 0}, "'members'"),
        ({"members": True}, "'members'"),
        ({"accounts": "bio"}, "'accounts' must be a list"),
        ({"accounts": 7}, "'accounts'"),
        ({"accounts": [7]}, "'accounts.0'"),
        ({"largest_budget": 5}, "'largest_budget'"),
    ],
)
def test_what_is_wrong_is_named(wrong: Any, named: str) -> None:
    with pytest.raises(TraitError, match=named):
        policy(wrong).by  # noqa: B018
