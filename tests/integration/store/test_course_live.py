"""Who is there in a course, its messages and its help, as they are kept."""

from __future__ import annotations

import pytest

from portal.errors import NotFound
from portal.models.course.live import CourseMessage, Help, HelpState, Presence
from portal.store import Store

TOLD = Presence(course="deep", person="ada", session_id="A", seen_at=100.5, notebooks=("a.ipynb",))


async def test_one_row_for_each_member(store: Store) -> None:
    table = store.presence
    await table.save_report(TOLD)
    await table.save_report(TOLD.model_copy(update={"seen_at": 110.5, "opened_at": 105.5}))
    await table.save_report(TOLD.model_copy(update={"seen_at": 120.5, "opened_at": 119.0}))
    await table.save_report(TOLD.model_copy(update={"person": "bob"}))
    await table.save_report(TOLD.model_copy(update={"course": "other"}))
    first, second = await table.of_course("deep")
    assert (first.person, first.seen_at, first.opened_at) == ("ada", 120.5, 105.5)
    assert (second.person, second.opened_at) == ("bob", None)

    up = TOLD.model_copy(update={"hand": "Cell 3", "hand_at": 130.5})
    await table.raise_hand(up)
    await table.took_handout(TOLD.model_copy(update={"handout": "abc", "handout_message": "x"}))
    await table.save_report(TOLD)
    (hand,) = await table.hands()
    assert (hand.person, hand.course, hand.hand, hand.handout) == ("ada", "deep", "Cell 3", "abc")
    assert await table.lower_hand("deep", "ada") and not await table.lower_hand("deep", "ada")
    assert await table.hands() == []
    # Another session begins anew.
    await table.raise_hand(up)
    await table.save_report(TOLD.model_copy(update={"session_id": "B"}))
    assert (await table.of_course("deep"))[0] == TOLD.model_copy(update={"session_id": "B"})


async def test_messages(store: Store) -> None:
    table = store.course_messages
    draft = CourseMessage(course="deep", text="Hello", by="barbara", at=100.5, ends_at=200.5)
    first = await table.add_row(draft)
    second = await table.add_row(draft.model_copy(update={"ends_at": 300.5}))
    await table.add_row(draft.model_copy(update={"course": "other"}))
    assert [one.id for one in await table.of_course("deep")] == [second.id, first.id]
    assert [one.course for one in await table.active(150.0)] == ["other", "deep", "deep"]
    assert await table.active(300.5) == []
    assert (await table.withdraw("deep", second.id, 150.0)).ends_at == 150.0
    assert (await table.withdraw("deep", first.id, 250.0)).ends_at == 200.5, "it was over"
    for course, number in (("other", first.id), ("deep", 10**9), ("deep", 10**30)):
        with pytest.raises(NotFound):
            await table.withdraw(course, number, 150.0)


async def test_help(store: Store) -> None:
    table = store.help
    asked = await table.add_row(
        Help(
            course="deep", student="ada", server="course-deep", session_id="A", helper="barbara",
            state=HelpState.ASKED, minutes=10, asked_at=100.5,
        )
    )  # fmt: skip
    assert await table.open() == [asked]
    granted = asked.model_copy(
        update={"state": HelpState.GRANTED, "granted_at": 110.5, "until": 710.5}
    )
    await table.save(granted)
    assert await table.open() == [granted]
    await table.save(granted.model_copy(update={"state": HelpState.ENDED, "ended_at": 120.5}))
    assert await table.open() == []
    (stored,) = await table.of_course("deep")
    assert (stored.id, stored.state, stored.ended_at) == (asked.id, "ended", 120.5)
    assert await table.of_course("other") == []
