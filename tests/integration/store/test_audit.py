"""The audit log is only ever added to; announcements."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from portal.errors import InvalidRequest
from portal.models.announcement import Announcement, AnnouncementDraft, Level
from portal.models.audit import AuditEntry, Outcome
from portal.store import Store


def entry(at: float = 100.0, **values: Any) -> AuditEntry:
    given = {"actor": "grace", "action": "drain", "target": "node gpu01", "outcome": "done"}
    return AuditEntry(at=at, **(given | values))


async def test_a_line_comes_back_as_it_was(store: Store) -> None:
    line = entry(owner="ada", outcome=Outcome.REFUSED, detail="Broken fan.", address="10.0.0.1")
    await store.audit.add_entry(line)
    (found,), total = await store.audit.find()
    assert (found.model_copy(update={"id": 0}), total) == (line, 1)
    assert found.id > 0


async def test_filters_pages_and_order(store: Store) -> None:
    for number in range(5):
        await store.audit.add_entry(entry(100.0 + number, target=f"job {number}"))
    await store.audit.add_entry(entry(50.0, actor="ada", action="stop-session", outcome="failed",
                                owner="barbara", detail="No such 100% thing"))  # fmt: skip

    async def ats(**wanted: Any) -> list[float]:
        return [one.at for one in (await store.audit.find(**wanted))[0]]

    assert await ats() == [104, 103, 102, 101, 100, 50]
    assert await ats(sort="at", offset=1, limit=2) == [100, 101]
    assert await ats(actor="ada") == await ats(action="stop-session") == [50]
    assert await ats(owner="barbara") == await ats(outcome=Outcome.FAILED) == [50]
    assert await ats(target="job 3", outcome=Outcome.DONE) == [103]
    assert await ats(since=101, until=103) == [102, 101]
    assert await ats(text="100% THING") == await ats(text="BARBARA") == [50]
    assert await ats(text="job%") == []
    assert (await store.audit.find(limit=1))[1] == 6
    with pytest.raises(InvalidRequest, match="cannot be sorted by 'detail'"):
        await store.audit.find(sort="detail")


async def test_an_action_is_found_by_the_words_of_its_page(store: Store) -> None:
    for action in ("move-session", "a-former-name"):
        await store.audit.add_entry(entry(action=action))
    for text_, action in (
        ("change resources", "move-session"),
        ("move-session", "move-session"),
        ("former", "a-former-name"),
    ):
        (found,), _ = await store.audit.find(text=text_)
        assert found.action == action


async def test_hostile_words_are_kept(store: Store) -> None:
    await store.audit.add_entry(
        entry(actor="a\0", target="\ud800<b>", detail="\x00" * 10, owner="é" * 900)
    )
    (found,), _ = await store.audit.find(actor="a\0")
    assert (found.actor, found.target, len(found.owner)) == ("a\ufffd", "\ufffd<b>", 300)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit", "DELETE FROM audit WHERE id = 1"],
)
async def test_the_database_itself_refuses_changes(store: Store, statement: str) -> None:
    await store.audit.add_entry(entry())
    with pytest.raises(DBAPIError, match="the audit log is only ever added to"):
        await store.database.run(lambda to: to.execute(text(statement)), write=True)
    assert (await store.audit.find())[0][0].actor == "grace"


async def test_replacing_and_truncating_are_changes_too(store: Store) -> None:
    await store.audit.add_entry(entry())
    statement = (
        "TRUNCATE audit" if store.database.address.path is None else
        "REPLACE INTO audit SELECT id, at, 'x', action, target, owner, outcome, detail, address, "
        "search FROM audit"
    )  # fmt: skip
    with pytest.raises(DBAPIError):
        await store.database.run(lambda to: to.execute(text(statement)), write=True)
    assert (await store.audit.find())[0][0].actor == "grace"


# -- announcements -------------------------------------------------------------------------------


def draft(words: str = "Maintenance", start: float = 100, end: float = 200) -> AnnouncementDraft:
    return AnnouncementDraft(text=words, level=Level.WARNING, starts_at=start, ends_at=end)


async def test_announcements_are_seen_from_start_to_end(store: Store) -> None:
    first = await store.announcements.add_announcement(draft(), "grace", 50)
    second = await store.announcements.add_announcement(draft("\0 <b>", 150, 300), "grace", 60)
    assert first == Announcement(id=first.id, author="grace", created_at=50, **draft().model_dump())
    assert second.text == "\ufffd <b>"
    assert await store.announcements.all() == ([second, first], 2)
    assert await store.announcements.all(offset=1, limit=1) == ([first], 2)
    seen = {at: await store.announcements.active(at) for at in (99.9, 100, 150, 199.9, 200, 300)}
    assert seen == {
        99.9: [], 100: [first], 150: [second, first], 199.9: [second, first], 200: [second],
        300: [],
    }  # fmt: skip


async def test_withdrawing(store: Store) -> None:
    running = await store.announcements.add_announcement(draft(), "grace", 50)
    later = await store.announcements.add_announcement(draft(start=500, end=600), "grace", 50)
    over = await store.announcements.add_announcement(draft(start=1, end=2), "grace", 0)
    ended = await store.announcements.withdraw(running.id, 150)
    assert ended == running.model_copy(update={"ends_at": 150.0})
    assert await store.announcements.active(150) == []
    assert await store.announcements.withdraw(later.id, 150) == later
    assert await store.announcements.withdraw(later.id, 150) is None
    assert await store.announcements.withdraw(over.id, 150) == over
    assert await store.announcements.all() == ([over, ended], 2)
    for missing in (0, -1, 10**6, 2**63, 10**30):
        assert await store.announcements.withdraw(missing, 150) is None


async def test_an_id_is_never_given_twice(store: Store) -> None:
    later = await store.announcements.add_announcement(draft(), "grace", 50)
    await store.announcements.withdraw(later.id, 60)
    assert (await store.announcements.add_announcement(draft(), "grace", 70)).id > later.id
