"""The Hub's question before a login at another user's session: who is asked, and who is not."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.apihandlers.auth import OAuthAuthorizeHandler
from jupyterhub.scopes import access_scopes, identify_scopes
from sqlalchemy.orm import Session

from spawners.context import HubContext
from spawners.hub_patches import entry_confirm
from spawners.web.entries import Entries


class Question:
    """Logins at two sessions of ada."""

    def __init__(self, db: Session) -> None:
        self.db, self.entries = db, Entries()
        (ada,) = db.query(orm.User)
        db.add_all([orm.User(name="grace"), orm.User(name="heidi")])
        self.clients = {name: orm.OAuthClient(identifier=f"ada-{name}") for name in ("lab", "two")}
        for name, client in self.clients.items():
            db.add(orm.Spawner(name=name, user=ada, oauth_client=client))
        self.service = orm.OAuthClient(identifier="service")
        db.add(orm.Service(name="elsewhere", oauth_client=self.service))
        db.commit()

    def is_asked(
        self, visitor: str = "grace", server: str = "lab", more: frozenset[str] = frozenset()
    ) -> bool:
        client = self.clients[server]
        return self._asked(visitor, client, identify_scopes() | access_scopes(client) | more)

    def of_service(self) -> bool:
        return self._asked("grace", self.service, identify_scopes())

    def _asked(self, visitor: str, client: orm.OAuthClient, scopes: set[str]) -> bool:
        handler: Any = SimpleNamespace(
            db=self.db, settings={}, log=logging.getLogger("hub"), config=None
        )
        row = orm.User.find(self.db, visitor)
        own = {s.name: SimpleNamespace(oauth_client_id=f"ada-{s.name}") for s in row._orm_spawners}
        user: Any = SimpleNamespace(name=visitor, id=row.id, spawners=own)
        asked = OAuthAuthorizeHandler.needs_oauth_confirm(handler, user, client, scopes)
        assert isinstance(asked, bool)
        return asked


@pytest.fixture
def question(db: Session, monkeypatch: pytest.MonkeyPatch) -> Question:
    made = Question(db)
    monkeypatch.setattr(HubContext, "_only", SimpleNamespace(entries=made.entries))
    entry_confirm.PATCH.apply()
    return made


def test_a_bare_link_is_asked_about(question: Question) -> None:
    assert question.is_asked()
    assert not question.is_asked("ada"), "it is her own"


def test_who_chose_the_session_is_not_asked_again(question: Question) -> None:
    question.entries.admit("grace", "ada", "lab")
    assert not question.is_asked()
    assert question.is_asked(), "once"


def test_nobody_else_and_nothing_else_is_meant(question: Question) -> None:
    question.entries.admit("grace", "ada", "lab")
    assert question.is_asked("heidi")
    assert question.is_asked(server="two")
    assert question.of_service()
    assert not question.is_asked()


@pytest.mark.parametrize("more", ["inherit", "servers!user", "access:servers!user=ada"])
def test_whatever_goes_beyond_the_session_is_asked_about(question: Question, more: str) -> None:
    question.entries.admit("grace", "ada", "lab")
    assert question.is_asked(more=frozenset({more}))
    assert not question.is_asked(), "and that question has used nothing up"


def test_an_own_session_uses_nothing_up(question: Question) -> None:
    question.entries.admit("ada", "ada", "lab")
    assert not question.is_asked("ada")
    assert question.entries.use("ada", "ada", "lab")
