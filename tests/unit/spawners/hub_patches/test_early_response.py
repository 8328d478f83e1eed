"""The route of launches, which the portal's service asks for whole classes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jupyterhub import orm
from sqlalchemy import event
from sqlalchemy.orm import Session

from spawners.hub_patches.early_response import EarlyResponse


def test_whom_the_hub_has_in_memory_costs_a_launch_one_question(db: Session) -> None:
    asked: list[str] = []
    event.listen(db.get_bind(), "before_cursor_execute", lambda *what: asked.append(what[2]))
    handler: Any = SimpleNamespace(db=db, _user_from_orm=lambda one: one)
    ada = db.query(orm.User).filter_by(name="ada").one()
    assert (ada.roles, ada.groups) == ([], [])
    asked.clear()
    assert EarlyResponse.find_user(handler, "ada") is ada
    assert len(asked) == 1
    assert EarlyResponse.find_user(handler, "nobody") is None
