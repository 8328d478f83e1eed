"""Mail about sessions: what is told when, to whom, and over a real mail server on loopback."""

from __future__ import annotations

import asyncio
import ssl
import time
from email import message_from_bytes
from email.policy import SMTP as SMTP_POLICY
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from certipy import Certipy
from clusters import record
from machine import patience
from machine_clock import awake
from mail_server import Inbox, mail_server, mail_settings
from traitlets.config import Config

from portal.demo.daemons.ports import free_port
from portal.doctor.checks.notices import mail_server as mail_server_check
from portal.doctor.finding import Finding, Level
from portal.errors import ConfigurationError, InvalidRequest, NotFound, Unavailable
from portal.handlers.sessions.notices import NoticeWish, OwnNotices
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.session import SessionRecord, SessionState
from portal.notices import Notices, notices
from portal.notices.due import Notice, due
from portal.notices.server import MailRefused, MailServer
from portal.notices.words import address_of, mail
from portal.store import Store

NOW = 1_790_000_000.0
PASSWORD = "a mail password that nobody may see"


def session(id: str = "s1", job_id: str = "7", **changes: Any) -> SessionRecord:
    names = {"environment": "jupyterlab", "environment_title": "JupyterLab"}
    times = {"submitted_at": NOW - 1000, "started_at": NOW - 100, "ready_at": NOW - 90}
    return record(id, job_id, **{**names, **times, **changes})


def job(**changes: Any) -> Job:
    return Job(**{"id": "7", "state": JobState.RUNNING, "end_time": NOW + 7200, **changes})


def kinds(record: SessionRecord, of: Job, now: float = NOW) -> list[str]:
    found = due({"7": record}, {of.id: of}, now, waited=120, before_end=900)
    return [notice.kind for notice in found]


# -- what is due -----------------------------------------------------------------------------------


def test_a_session_that_waited_is_told_while_it_is_news() -> None:
    assert kinds(session(), job()) == ["started"]
    assert kinds(session(started_at=NOW - 950), job()) == []  # it waited 50 s
    assert kinds(session(ready_at=NOW - 700), job()) == []
    assert kinds(session(state=SessionState.STARTING, ready_at=None), job()) == []
    assert kinds(session(), job(id="8")) == []  # Slurm does not know it any more


def test_each_end_is_told_once_before_it() -> None:
    old = session(submitted_at=NOW - 9000, started_at=NOW - 8000, ready_at=NOW - 8000)
    assert kinds(old, job(end_time=NOW + 901)) == []
    first = kinds(old, job(end_time=NOW + 900))
    assert first == [f"ends-{int(NOW + 900)}"]
    assert kinds(old, job(end_time=NOW + 800)) != first  # extended, or cut short: another end
    assert kinds(old, job(end_time=NOW - 1)) == []
    assert kinds(old, job(end_time=None)) == []
    # Ten minutes in all: not at the start, but in the second half.
    short = session(submitted_at=NOW - 10, started_at=NOW - 5, ready_at=NOW)
    assert kinds(short, job(end_time=NOW + 595)) == []
    assert kinds(short, job(end_time=NOW + 595), NOW + 300) == [f"ends-{int(NOW + 595)}"]


# -- words -----------------------------------------------------------------------------------------


def written(record: SessionRecord, to: str = "ada@example.org", kind: str = "started") -> Any:
    made = mail(
        Notice(kind, record, NOW + 600),
        sender="GPU portal <portal@example.org>",
        to=to,
        public_url="https://gpu.example.org/",
        now=NOW,
        portal="https://gpu.example.org/",
    )
    return message_from_bytes(made.as_bytes(), policy=SMTP_POLICY)


def test_the_mail_says_what_and_leads_there() -> None:
    told = written(session(server="big one"))
    assert told["Subject"] == "Your session has started: JupyterLab big one"
    assert (told["To"], told["From"]) == ("ada@example.org", "GPU portal <portal@example.org>")
    assert told["Auto-Submitted"] == "auto-generated"
    text = told.get_content()
    assert "after 15 min in the queue" in text
    assert "https://gpu.example.org/user/ada/big%20one/" in text
    assert "https://gpu.example.org/services/portal/sessions" in text
    ends = written(session(), kind="ends-1")
    assert ends["Subject"] == "Your session ends soon: JupyterLab"
    assert "in 10 min" in ends.get_content()


@pytest.mark.parametrize(
    "name",
    [
        "x\r\nBcc: all@example.org",
        "x\nBcc: all@example.org\n\nanother body",
        "x\0y",
        "<b>bold</b>",
        "\u202egnol",
        "=?utf-8?q?Bcc:?=",
        "Ünïcode ✓",
        "l" * 5000,
    ],
)
def test_a_name_stays_a_name(name: str) -> None:
    told = written(session(server=name, environment_title=name))
    assert told["Bcc"] is None
    assert len(told.keys()) == len(set(told.keys()))
    assert set(told.keys()) == set(written(session()).keys())
    subject = str(told["Subject"])
    assert "\n" not in subject and len(subject) < 160
    assert told.get_content_type() == "text/plain"
    assert len(told.get_content().splitlines()) == len(
        written(session()).get_content().splitlines()
    )


@pytest.mark.parametrize(
    "address",
    [
        "ada",
        "",
        "@example.org",
        "ada@",
        "ada@example.org, all@example.org",
        "ada@example.org\r\nBcc: all@example.org",
        "ada@example.org\nBcc: x@example.org",
        "a\0da@example.org",
        "ada:grace@example.org",  # parseaddr: a group
        "ada grace@example.org",
        "(ada) grace@example.org",
        "=?utf-8?q?a=0d=0aBcc:_grace=40example.org?=@example.org",
    ],
)
def test_an_address_is_one_address(address: str) -> None:
    with pytest.raises(ValueError):
        address_of(address)
    with pytest.raises(InvalidRequest):
        written(session(), to=address)


# -- a real mail server ----------------------------------------------------------------------------


def may_log_in(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    right = data == LoginPassword(b"portal", PASSWORD.encode())
    return AuthResult(success=right, handled=right)  # a refusal is for aiosmtpd to say


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    maker = Certipy(store_dir=str(tmp_path_factory.mktemp("mail-tls")))
    authority = maker.create_ca("mail-ca")
    pair = maker.create_signed_pair("mail", "mail-ca", alt_names=["IP:127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair["files"]["cert"], pair["files"]["key"])
    return SimpleNamespace(ca=authority["files"]["cert"], context=context)


def protected(certificate: Any) -> dict[str, Any]:
    return {
        "tls_context": certificate.context,
        "require_starttls": True,
        "auth_required": True,
        "authenticator": may_log_in,
    }


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    file = tmp_path / "mail-password"
    file.write_text(f"{PASSWORD}\n")
    return file


async def test_starttls_with_a_login(certificate: Any, password_file: Path) -> None:
    inbox = Inbox()
    with mail_server(inbox, **protected(certificate)) as port:
        server = MailServer(
            "127.0.0.1",
            port,
            ca_file=certificate.ca,
            user="portal",
            password_file=str(password_file),
        )
        await server.check()
        await server.send(written(session()))
        (told,) = inbox.mails
        assert told["Subject"] == "Your session has started: JupyterLab"

        password_file.write_text("wrong")
        with pytest.raises(Unavailable, match="535") as wrong:
            await server.send(written(session()))
        assert not isinstance(wrong.value, MailRefused)  # an admin can mend it
        assert "wrong" not in str(wrong.value)
        password_file.unlink()
        with pytest.raises(ConfigurationError, match=r"password_file cannot be read"):
            await server.send(written(session()))


async def test_a_certificate_that_nobody_vouches_for(certificate: Any) -> None:
    inbox = Inbox()
    with mail_server(inbox, tls_context=certificate.context) as port:
        with pytest.raises(Unavailable, match=r"(?i)certificate"):
            await MailServer("127.0.0.1", port).send(written(session()))
        with pytest.raises(Unavailable, match=r"(?i)certificate|mismatch"):
            await MailServer("localhost", port, ca_file=certificate.ca).send(written(session()))
    assert inbox.mails == []


async def test_no_mail_goes_out_in_clear_text_where_starttls_is_wanted() -> None:
    inbox = Inbox()
    with mail_server(inbox) as port:
        with pytest.raises(Unavailable):
            await MailServer("127.0.0.1", port).send(written(session()))
        assert inbox.mails == []
        await MailServer("127.0.0.1", port, encryption="none").send(written(session()))
    assert len(inbox.mails) == 1


async def test_for_now_and_for_good() -> None:
    inbox = Inbox()
    with mail_server(inbox) as port:
        server = MailServer("127.0.0.1", port, encryption="none")
        inbox.answer = "451 try later\nevil"
        with pytest.raises(Unavailable, match="451") as later:
            await server.send(written(session()))
        assert not isinstance(later.value, MailRefused)
        inbox.answer = "554 no"
        with pytest.raises(MailRefused, match="554"):
            await server.send(written(session()))


async def test_a_mail_server_that_hangs() -> None:
    hanging = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    began = awake()
    with pytest.raises(Unavailable):
        await MailServer("127.0.0.1", port, encryption="none", timeout=1).send(written(session()))
    assert awake() - began < 5
    hanging.close()


# -- the loop --------------------------------------------------------------------------------------


def sending(store: Store, port: int, **settings: Any) -> Notices:
    return Notices(store=store, **mail_settings(port, **settings))


def seen(*records: SessionRecord, **changes: Any) -> Any:
    jobs = {one.job_id: job(id=one.job_id, **changes) for one in records}
    return SimpleNamespace(
        sessions={one.job_id: one for one in records}, snapshot=SimpleNamespace(jobs=jobs)
    )


async def test_one_mail_to_those_who_want_it(store: Store) -> None:
    inbox = Inbox()
    await store.notices.wish("ada", True, NOW)
    view = seen(session(), session(id="s2", job_id="8", user="grace"))
    with mail_server(inbox) as port:
        for _ in range(3):
            await sending(store, port).send_due(view, NOW)  # the service was restarted each time
        same = sending(store, port)
        for _ in range(2):
            await same.send_due(view, NOW)
    assert [told["To"] for told in inbox.mails] == ["ada@example.org"]
    assert await store.notices.unsent(["s1", "s2"]) == set()


async def test_a_site_may_want_it_for_all_and_people_may_not(store: Store) -> None:
    inbox = Inbox()
    await store.notices.wish("ada", False, NOW)
    view = seen(session(), session(id="s2", job_id="8", user="grace"))
    with mail_server(inbox) as port:
        told = sending(store, port, wanted=True)
        await told.send_due(view, NOW)
        assert await told.wishes_of("ada") is False
        assert await told.wishes_of("grace") is True
    assert [told["To"] for told in inbox.mails] == ["grace@example.org"]


async def test_an_extended_session_gets_another_mail(store: Store) -> None:
    inbox = Inbox()
    await store.notices.wish("ada", True, NOW)
    old = session(submitted_at=NOW - 9000, started_at=NOW - 9000, ready_at=NOW - 8000)
    with mail_server(inbox) as port:
        told = sending(store, port)
        for end in (NOW + 300, NOW + 300, NOW + 3900):
            await told.send_due(seen(old, end_time=end), NOW)
        assert len(inbox.mails) == 1
        await told.send_due(seen(old, end_time=NOW + 3900), NOW + 3600)
    assert [one["Subject"] for one in inbox.mails] == ["Your session ends soon: JupyterLab"] * 2


async def test_the_mail_server_is_away_and_comes_back(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inbox, port = Inbox(), free_port()
    await store.notices.wish("ada", True, NOW)
    monkeypatch.setattr(notices, "_RETRY", (2, 2))
    told = sending(store, port)
    await told.send_due(seen(session()), NOW)
    await told.send_due(seen(session()), NOW)  # too soon: it does not even ask
    assert await store.notices.unsent(["s1"]) == {("s1", "started")}
    assert caplog.text.count("cannot be used") <= 1
    with mail_server(inbox, port):
        end = time.monotonic() + patience(60)
        while not inbox.mails:
            assert time.monotonic() < end
            await told.send_due(seen(session()), NOW)
            await asyncio.sleep(0.1)
        await told.send_due(seen(session()), NOW)
    assert len(inbox.mails) == 1
    assert await store.notices.unsent(["s1"]) == set()


async def test_a_restarted_service_tries_what_failed_before(store: Store) -> None:
    inbox, port = Inbox(), free_port()
    await store.notices.wish("ada", True, NOW)
    await sending(store, port).send_due(seen(session()), NOW)
    with mail_server(inbox, port):
        await sending(store, port).send_due(seen(session()), NOW)
        await sending(store, port).send_due(seen(session()), NOW)
    assert len(inbox.mails) == 1


async def test_a_refusal_for_good_is_not_repeated(store: Store) -> None:
    inbox = Inbox()
    inbox.answer = "554 no such person"
    await store.notices.wish("ada", True, NOW)
    with mail_server(inbox) as port:
        told = sending(store, port)
        await told.send_due(seen(session()), NOW)
        inbox.answer = "250 taken"
        await told.send_due(seen(session()), NOW)
    assert inbox.mails == []


async def test_the_database_is_away(tmp_path: Path) -> None:
    gone = Store(url=f"sqlite:///{tmp_path}/missing/portal.sqlite")
    await sending(gone, 1).send_due(seen(session()), NOW)
    await gone.close()


async def test_the_address_is_the_directorys(store: Store) -> None:
    async def mail_of(name: str) -> str | None:
        return {"ada": "lovelace@example.org"}.get(name)

    told = sending(store, 25, address="directory", directory=SimpleNamespace(mail_of=mail_of))
    assert await told.address_for("ada") == "lovelace@example.org"
    with pytest.raises(NotFound, match="no mail address for grace"):
        await told.address_for("grace")
    with pytest.raises(ConfigurationError, match="No directory with mail addresses"):
        await sending(store, 25, address="directory").address_for("ada")


def test_off_without_a_mail_server(store: Store) -> None:
    assert not Notices(store=store).on


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sender": ""}, "is not a mail address"),
        ({"sender": "a@b\nBcc: x@y"}, "line break"),
        ({"address": "everyone@example.org"}, "one address"),
        ({"public_url": ""}, "public_url"),
        ({"user": "portal"}, "password_file"),
        ({"user": "portal", "password_file": "/x"}, "encrypted"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        sending(None, 25, **settings)  # type: ignore[arg-type]


# -- the endpoint --------------------------------------------------------------------------------


async def test_the_wish_is_ones_own_and_needs_an_address(store: Store) -> None:
    told = sending(store, 25)

    def asked(mail: bool) -> Any:
        return SimpleNamespace(
            parts=SimpleNamespace(notices=told, store=store),
            person=SimpleNamespace(name="ada"),
            body=NoticeWish(mail=mail),
        )

    assert (await OwnNotices.on_get(asked(True))).mail is False
    assert (await OwnNotices.on_put(asked(True))).mail is True
    assert (await OwnNotices.on_get(asked(True))).mail is True
    assert await store.notices.wishes(["ada", "grace"]) == {"ada": True}

    async def nobody_knows(user: str) -> str:
        raise NotFound(f"The directory has no mail address for {user}.")

    told.address_for = nobody_knows  # type: ignore[method-assign]
    with pytest.raises(NotFound, match="ada"):
        await OwnNotices.on_put(asked(True))
    assert (await OwnNotices.on_put(asked(False))).mail is False


# -- portal doctor --------------------------------------------------------------------------------


async def looked_at(**settings: Any) -> Finding:
    site: Any = SimpleNamespace(config=Config({"Notices": Config(settings)}), log=None)
    return await mail_server_check.run(site, 30)


async def test_the_doctor_logs_in_and_sends_nothing(certificate: Any, password_file: Path) -> None:
    assert (await looked_at()).level is Level.OK
    inbox = Inbox()
    with mail_server(inbox, **protected(certificate)) as port:
        settings = {
            "smtp_host": "127.0.0.1",
            "smtp_port": port,
            "ca_file": certificate.ca,
            "user": "portal",
            "password_file": str(password_file),
            "sender": "portal@example.org",
            "public_url": "https://gpu.example.org/",
        }
        password_file.chmod(0o600)
        assert (await looked_at(**settings)).level is Level.OK
        password_file.chmod(0o644)
        readable = await looked_at(**settings)
        assert (readable.level, readable.mend) == (Level.FAILURE, f"chmod 0600 {password_file}")
        password_file.write_text("wrong")
        assert "535" in (await looked_at(**settings)).found
    assert "cannot be used" in (await looked_at(**settings)).found
    assert "is not a mail address" in (await looked_at(**{**settings, "sender": ""})).found
    assert inbox.mails == []
