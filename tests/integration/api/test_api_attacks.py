"""What someone tries who means harm: the service's log, tokens with few rights, floods."""

from __future__ import annotations

import logging
import secrets
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from api_client import SERVICE, Caller
from session_endpoints import parts_on

from portal.handlers.base.csv import cell
from portal.logs.formats import OneLineFormatter
from portal.models.audit import AuditEntry, Outcome
from portal.models.plain_text import escaped
from portal.store import Store
from portal.web.audit_rate_limit import AuditRateLimit

# -- the log ------------------------------------------------------------------------------------


def test_a_text_with_control_characters_is_one_line_of_a_log() -> None:
    assert escaped("Käthe's job, 日本") == "Käthe's job, 日本"
    assert escaped("a\nb\r\x1b[31m\x9b\x7f") == r"a\u000ab\u000d\u001b[31m\u009b\u007f"
    assert escaped("a\u2028b\u202ec") == r"a\u2028b\u202ec"


def test_a_message_is_one_line_and_a_traceback_is_not() -> None:
    made = OneLineFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord("x", 30, "x", 1, "%s", ("a\nW audit: {}",), None)
    assert made.format(record) == r"WARNING a\u000aW audit: {}"
    try:
        raise ValueError("why")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    assert "\nTraceback" in made.format(record)


def test_nobody_writes_lines_of_their_own_into_the_services_log(demo: Any, ada: Caller) -> None:
    """The audit log's lines stand there too, and nowhere else while the database is away."""
    mark = secrets.token_hex(4)
    forged = f"\n[W portal] audit: {mark}-%s\x9b31m"
    address = f"{demo.url}{SERVICE}oauth_callback?error={quote('x' + forged % 1)}"
    httpx.get(address, trust_env=False, timeout=60)
    ada.get(f"jobs?{quote('x' + forged % 2)}=1")
    ada.post("sessions/x/stop", json={"x" + forged % 3: 1})
    log = (demo.home.log / "hub.out").read_text()
    for number in (1, 2, 3):
        (line,) = (one for one in log.splitlines() if f"{mark}-{number}" in one)
        assert line.isprintable()
        assert not line.startswith("[W portal] audit")


# -- tokens with few rights ---------------------------------------------------------------------


def _of_anyone(answer: httpx.Response) -> Any:
    """Return the environments without what differs from person to person."""
    own = ("favourite", "last_used")
    items = answer.json()["items"]
    assert items
    return [{key: value for key, value in item.items() if key not in own} for item in items]


@pytest.mark.parametrize(
    "scopes", [[], ["custom:portal:metrics:read"], ["custom:portal:jobs:read"]], ids=str
)
def test_an_admins_token_for_little_sees_what_anyone_sees(
    demo: Any, ada: Caller, grace: Caller, scopes: list[str]
) -> None:
    asked = {"scopes": ["access:services!service=portal", *scopes]}
    token = grace.person.api("POST", "/users/grace/tokens", asked).json()["token"]
    with httpx.Client(
        base_url=ada.base_url,
        headers={"Authorization": f"token {token}"},
        trust_env=False,
        timeout=120,
    ) as narrow:
        assert _of_anyone(narrow.get("environments")) == _of_anyone(ada.get("environments"))
        for path in ("audit", "usage", "sessions?all=true"):
            assert narrow.get(path).status_code == 403
        for path in ("nodes/gpu01/drain", "jobs/999999/hold"):
            assert narrow.post(path, json={"reason": "x"}).status_code == 403
    assert "image" in grace.get("environments").text


# -- floods -------------------------------------------------------------------------------------


def test_an_allowance_comes_back_and_counts_what_was_too_much() -> None:
    allowance = AuditRateLimit(most=3, per_second=0.5)
    assert [allowance.take("ada", 0) for _ in range(5)] == [0, 0, 0, None, None]
    assert allowance.take("grace", 0) == 0
    assert allowance.take("ada", 1) is None
    assert allowance.take("ada", 2) == 3
    assert allowance.take("ada", 2) is None
    assert [allowance.take("ada", 2000) for _ in range(4)] == [1, 0, 0, None]
    assert allowance.take("ada", 1999) is None  # a clock that was set back
    allowance.take("grace", 9000)
    assert list(allowance._people) == ["grace"]


async def test_nobody_fills_the_audit_log_which_is_kept_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admin's script that acts on many things is listed whole, all the same."""
    lines: list[AuditEntry] = []

    async def add(entry: AuditEntry) -> None:
        lines.append(entry)

    monkeypatch.setattr(store.audit, "add_entry", add)
    parts = parts_on(store)
    parts.audit_log.allowance = AuditRateLimit(most=10, per_second=1e-6)
    request = SimpleNamespace(headers={}, remote_ip="127.0.0.1")

    async def ask(name: str, **values: Any) -> None:
        who = SimpleNamespace(person=SimpleNamespace(name=name), request=request)
        await parts.audit(who, "cancel-job", "job 1", **values)

    for _ in range(20):
        await ask("ada", outcome=Outcome.REFUSED, owner="grace")
        await ask("ada", outcome=Outcome.FAILED, owner="ada")
        await ask("ada", owner="ada")
        await ask("grace", owner="ada")
    assert [line.actor for line in lines].count("ada") == 10
    assert [line.actor for line in lines].count("grace") == 20
    parts.audit_log.allowance._people["ada"] = (1.0, 0.0, 50)
    await ask("ada", outcome=Outcome.REFUSED, detail="Why.")
    assert lines[-1].detail == "50 entries before this one were suppressed (rate limit). Why."


# -- spreadsheets -------------------------------------------------------------------------------


def test_no_cell_is_a_formula_where_semicolons_part_cells() -> None:
    cells = {
        "a;=cmd|' /c calc'!A1": "a;'=cmd|' /c calc'!A1",
        "a; -1+1;@x;b;\uff1d1": "a;' -1+1;'@x;b;'\uff1d1",
        "\uff1d1+1": "'\uff1d1+1",
        ";=1": ";'=1",
        "=1;=2": "'=1;'=2",
        "a;b=1, c-d": "a;b=1, c-d",
    }
    assert {text: cell(text) for text in cells} == cells
