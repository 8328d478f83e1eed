"""Mail about runs: at the end or at the first failure, once each, over a real mail server on
loopback."""

from __future__ import annotations

import logging
from email.message import EmailMessage
from typing import Any

import pytest
from mail_server import Inbox, mail_server, mail_settings

from portal.demo.daemons.ports import free_port
from portal.errors import Conflict, NotFound
from portal.models.session.run import PointState, Run, RunEvent, RunPoint
from portal.models.session.run_schedule import RunSchedule
from portal.notices import Notices, post
from portal.store import Store
from portal.work.run.notices import RunNotices
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.schedules import RunScheduleTable

NOW = 1_790_000_000.0
ID = "5e2f3c1a-0b7d"
BOTH = (RunEvent.END, RunEvent.FAILURE)
LOG = logging.getLogger("portal-test")


def sending(store: Store, port: int, **settings: Any) -> RunNotices:
    """The task of a service that has just started."""
    return RunNotices(Notices(store=store, **mail_settings(port, **settings)), store, LOG)


async def begin(store: Store, notify: tuple[RunEvent, ...], id_: str = ID, **more: Any) -> None:
    values = {
        "name": "rates",
        "source": "train.py",
        "folder": "/home/ada/runs/rates",
        "points": 3,
        "user": "ada",
        "server": "run-5e2f3c1a0b7d",
        "environment": "lab",
        "created_at": NOW - 100,
        "job_id": "12",
    }
    await store.table(RunTable).add_run(Run(id=id_, **{**values, **more}))
    await store.table(RunNoticeTable).ask(more.get("user", "ada"), id_, notify)


async def end_point(store: Store, number: int, state: str, message: str = "") -> None:
    point = RunPoint(
        number=number,
        state=PointState(state),
        attempt=1,
        ended_at=NOW - 50 - number,
        message=message,
    )
    await store.table(RunPointTable).save([(("ada", ID), point)])


def text_of(mail: EmailMessage) -> str:
    return str(mail.get_content()).replace("\r\n", "\n")


async def test_the_first_failure_and_the_end_are_told_once_each(store: Store) -> None:
    inbox = Inbox()
    await begin(store, BOTH)
    with mail_server(inbox) as port:
        await sending(store, port).send_due(NOW)
        await end_point(store, 0, "succeeded")
        await sending(store, port).send_due(NOW)
        assert inbox.mails == []
        await end_point(store, 2, "failed", "ValueError: a rate\nof 0")
        same = sending(store, port)
        await same.send_due(NOW)
        await end_point(store, 1, "failed", "Another.")
        for _ in range(2):
            await same.send_due(NOW)
        await sending(store, port).send_due(NOW)  # the service was restarted
        assert len(inbox.mails) == 1
        await store.table(RunTable).end("ada", ID, NOW)
        for _ in range(2):
            await same.send_due(NOW)
        await sending(store, port).send_due(NOW)
    failure, end = inbox.mails
    assert failure["To"] == end["To"] == "ada@example.org"
    assert failure["Subject"] == "A point of your run 'rates' has failed"
    said = text_of(failure)
    assert "first failure: 1 of 3 succeeded, 1 failed, 1 waiting." in said
    assert "Point 2: ValueError: a rate of 0" in said
    assert f"https://gpu.example.org/services/portal/runs/{ID}" in said
    assert end["Subject"] == "Your run 'rates' has ended: 1 of 3 succeeded, 2 failed"
    assert "Point 2: ValueError" in text_of(end), "it ended before point 1"
    assert failure["Message-ID"] != end["Message-ID"]
    assert await store.table(RunNoticeTable).open() == []


async def test_only_what_was_asked_for(store: Store) -> None:
    inbox = Inbox()
    await begin(store, (RunEvent.END,))
    await begin(store, (), id_="6e2f3c1a")
    await end_point(store, 0, "failed")
    with mail_server(inbox) as port:
        await sending(store, port).send_due(NOW)
        assert inbox.mails == []
        for id_ in (ID, "6e2f3c1a"):
            await store.table(RunTable).end("ada", id_, NOW)
        await sending(store, port).send_due(NOW)
    assert [mail["Subject"] for mail in inbox.mails] == [
        "Your run 'rates' has ended: 0 of 3 succeeded, 1 failed"
    ]


async def test_a_run_without_failures_and_one_whose_end_says_it(store: Store) -> None:
    inbox = Inbox()
    await begin(store, (RunEvent.FAILURE,))
    await begin(store, BOTH, id_="6e2f3c1a", user="barbara")
    reason = "The run did not start, because 3 points of 'first' failed."
    lost = RunPoint(number=0, state=PointState.LOST, message=reason, ended_at=NOW)
    await store.table(RunPointTable).save([(("barbara", "6e2f3c1a"), lost)])
    await store.table(RunTable).end("ada", ID, NOW)
    await store.table(RunTable).end("barbara", "6e2f3c1a", NOW, reason)
    with mail_server(inbox) as port:
        for _ in range(2):
            await sending(store, port).send_due(NOW)
    (mail,) = inbox.mails
    assert mail["To"] == "barbara@example.org" and text_of(mail).count(reason) == 1
    assert await store.table(RunNoticeTable).open() == []


async def test_a_run_that_runs_again_is_told_again(store: Store) -> None:
    inbox = Inbox()
    await begin(store, (RunEvent.END,))
    await store.table(RunTable).end("ada", ID, NOW)
    with mail_server(inbox) as port:
        await sending(store, port).send_due(NOW)
        await store.table(RunNoticeTable).repeat("ada", ID)
        await store.table(RunTable).note_jobs({("ada", ID): "13"})
        await sending(store, port).send_due(NOW)
    first, second = inbox.mails
    assert first["Message-ID"] != second["Message-ID"]


async def test_none_is_lost_while_the_mail_server_is_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, port = Inbox(), free_port()
    await begin(store, (RunEvent.END,))
    await store.table(RunTable).end("ada", ID, NOW)
    away = sending(store, port)
    await away.send_due(NOW)
    assert len(await store.table(RunNoticeTable).open()) == 1
    with mail_server(inbox, port):
        await away.send_due(NOW)
        assert inbox.mails == [], "it is not tried again at once"
        monkeypatch.setattr(post, "_RETRY", (0.0, 0.0))
        inbox.answer = "451 later"
        again = sending(store, port)
        await again.send_due(NOW)
        assert len(await store.table(RunNoticeTable).open()) == 1
        inbox.answer = "250 taken"
        await again.send_due(NOW)
    assert len(inbox.mails) == 1 and await store.table(RunNoticeTable).open() == []


async def test_a_mail_that_was_sent_when_the_service_was_killed_counts_as_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    await begin(store, (RunEvent.END,))
    await store.table(RunTable).end("ada", ID, NOW)

    async def killed(*_: Any) -> None:
        raise SystemExit

    with mail_server(inbox) as port:
        with monkeypatch.context() as patch:
            patch.setattr(store.table(RunNoticeTable), "save_outcome", killed)
            with pytest.raises(SystemExit):
                await sending(store, port).send_due(NOW)
        await sending(store, port).send_due(NOW)
    first, second = inbox.mails
    assert first["Message-ID"] == second["Message-ID"]


async def test_what_is_refused_or_old_is_not_tried_for_ever(store: Store) -> None:
    inbox = Inbox()
    await begin(store, (RunEvent.END,), id_="6e2f3c1a")
    await store.table(RunTable).end("ada", "6e2f3c1a", NOW - 8 * 86_400)
    with mail_server(inbox) as port:
        await sending(store, port).send_due(NOW)
        assert inbox.mails == [] and await store.table(RunNoticeTable).open() == []
        inbox.answer = "554 no"
        await begin(store, (RunEvent.END,))
        await store.table(RunTable).end("ada", ID, NOW)
        await sending(store, port).send_due(NOW)
    assert await store.table(RunNoticeTable).open() == []
    await sending(store, port, smtp_host="").send_due(NOW)  # such a site sends none


async def test_who_cannot_get_mail(store: Store) -> None:
    with pytest.raises(Conflict, match="This site sends no mail"):
        await sending(store, 25, smtp_host="").check("ada", BOTH)
    await sending(store, 25, smtp_host="").check("ada", ())

    class Directory:
        async def mail_of(self, user: str) -> str:
            return ""

    asked = sending(store, 25, address="directory", directory=Directory())
    with pytest.raises(NotFound, match="no mail address for ada"):
        await asked.check("ada", BOTH)
    await asked.check("ada", ())


async def test_a_schedule_that_did_not_start_a_run_is_told_once(store: Store) -> None:
    inbox = Inbox()
    words = "'rates' was not started at 02:00 on Monday, 23 November. You are not in 'ai'."
    schedule = RunSchedule(
        user="ada",
        id="5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162",
        name="rates",
        at="02:00",
        timezone="UTC",
        runs=(),
        created_at=1.0,
        last_at=NOW,
        untold=words,
    )
    await store.table(RunScheduleTable).add_schedule(schedule, 5)
    with mail_server(inbox) as port:
        for _ in range(2):
            await sending(store, port).send_due(NOW)
    (mail,) = inbox.mails
    assert mail["To"] == "ada@example.org"
    assert mail["Subject"] == "Your schedule of 'rates' did not start a run"
    assert words in text_of(mail) and "https://gpu.example.org/services/portal/runs" in text_of(
        mail
    )


async def test_the_end_of_a_chain_is_told_in_one_mail_per_run_at_most(store: Store) -> None:
    """Of a run that did not start because of another, only the end is told: the other's failure
    was."""
    inbox = Inbox()
    await begin(store, (RunEvent.FAILURE,))
    reason = "The run did not start, because 1 point of 'rates' failed."
    for id_, after in (("6e2f3c1a", ID), ("7e2f3c1a", "6e2f3c1a")):
        await begin(store, (RunEvent.FAILURE,), id_=id_, after=after)
        point = RunPoint(number=0, state=PointState.FAILED, message=reason, ended_at=NOW)
        await store.table(RunPointTable).save([(("ada", id_), point)])
        await store.table(RunTable).end("ada", id_, NOW, reason)
    await end_point(store, 0, "failed", "ValueError")
    with mail_server(inbox) as port:
        await sending(store, port).send_due(NOW)
    (mail,) = inbox.mails
    assert "ValueError" in text_of(mail) and await store.table(RunNoticeTable).open() == []
