"""Texts of the mails: plain text, short, with a link to the session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, make_msgid, parseaddr

from portal.errors import InvalidRequest
from portal.launch.kinds import kind_of
from portal.models.plain_text import escaped
from portal.models.words import clock, duration
from portal.sessions.links import server_url

from .due import STARTED, Notice

_LONGEST = 100  # characters of a name in a subject


def mail(
    notice: Notice, *, sender: str, to: str, public_url: str, now: float, portal: str
) -> EmailMessage:
    """Build the mail of a notice. ``public_url`` is the portal's address with a final slash.

    Names that people gave are on one line each, and headers are made by the standard library,
    which refuses a line break in them. Raises InvalidRequest for an invalid address.
    """
    paragraphs = _paragraphs(notice, public_url, now, portal)
    return envelope(_subject(notice), paragraphs, sender=sender, to=to, now=now)


def envelope(
    subject: str, paragraphs: Sequence[str], *, sender: str, to: str, now: float, id_: str = ""
) -> EmailMessage:
    """Build a mail of ``paragraphs``. ``now``: Unix seconds; ``id_``: the local part of its
    Message-ID; "": a random one. Raises InvalidRequest for an invalid address."""
    message = EmailMessage(policy=SMTP)
    try:
        message["From"] = address_of(sender)
        message["To"] = address_of(to)
        message["Subject"] = subject
    except (ValueError, MessageError) as error:
        raise InvalidRequest(f"The mail cannot be addressed: {escaped(str(error))}.") from None
    message["Date"] = format_datetime(datetime.fromtimestamp(now).astimezone())
    domain = message["From"].addresses[0].domain
    message["Message-ID"] = f"<{id_}@{domain}>" if id_ else make_msgid(domain=domain)
    # RFC 3834: no out-of-office reply answers this.
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n\n".join(paragraphs) + "\n")
    return message


def address_of(text: str) -> Address:
    """Parse "ada@example.org" or "Portal <portal@example.org>". Raises ValueError."""
    if not text.isprintable():
        raise ValueError(f"'{escaped(text)}' contains a line break or a control character")
    name, spec = parseaddr(text)
    user, at, domain = spec.rpartition("@")
    # For "a:grace@example.org", parseaddr returns somebody else's address.
    whole = text.strip() == spec or text.rstrip().endswith(f"<{spec}>")
    if not (user and at and domain and whole) or set(spec) & set(' ,;:<>()[]\\"'):
        raise ValueError(f"'{text}' is not a mail address")
    return Address(display_name=name, addr_spec=spec)


def _subject(notice: Notice) -> str:
    what = "has started" if notice.kind == STARTED else "ends soon"
    return f"Your session {what}: {_title(notice)}"


def _paragraphs(notice: Notice, public_url: str, now: float, portal: str) -> list[str]:
    session, ends_at = notice.session, notice.ends_at
    name = f"Your session '{_title(notice)}' (Slurm job {one_line(session.job_id)})"
    if notice.kind == STARTED:
        began = session.started_at if session.started_at is not None else now
        waited = duration(began - session.submitted_at)
        first = f"{name} has started, after {waited} in the queue."
        if ends_at is not None:
            first += f" It ends on {_clock(ends_at)}."
    else:
        assert ends_at is not None
        first = f"{name} ends on {_clock(ends_at)}, in {duration(ends_at - now)}."
        first += " Save your work; if your site allows it, you can also extend the session."
    return [
        first,
        *_server(notice, public_url),
        f"All your sessions:\n{public_url}services/portal/sessions",
        f"This mail is from {one_line(portal)}. "
        "You can turn off mail about your sessions on the Sessions page.",
    ]


def _title(notice: Notice) -> str:
    session = notice.session
    title = session.environment_title or session.environment or "JupyterLab"
    return one_line(f"{title} {session.server}".strip())


def one_line(text: str, most: int = _LONGEST) -> str:
    """Return text that a person wrote on one line of at most ``most`` characters."""
    text = " ".join(escaped(text).split())
    return text if len(text) <= most else f"{text[:most]}…"


def _server(notice: Notice, public_url: str) -> list[str]:
    if not kind_of(notice.session).serves:
        return []
    return [f"Open the session:\n{server_url(notice.session, public_url)}"]


def _clock(at: float) -> str:
    return clock(at, 0.0, zone=True)  # with its day: a mail may be read later
