"""What goes on in a course's sessions: who is there, messages, hands and help, through the API; the
Hub is played. With a real one: tests/hub/courses/test_course_help.py."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from courses_site import PEOPLE, Site, running
from session_endpoints import of_server, person
from session_records import recorded
from stepping_clock import SteppingClock

from portal.courses.live import helping
from portal.errors import HubUnavailable, NotFound, StoreUnavailable
from portal.handlers.base import entry
from portal.models.cluster.cluster import Job, JobState
from portal.models.course.live import CourseSituation
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import Role, SpaceState
from portal.work.course.parts import CourseParts

HELP = "courses/deep/people/student01/help"


class Shares:
    """The Hub's shares; ``away``: it does not answer."""

    def __init__(self) -> None:
        self.now: set[tuple[str, str, str]] = set()
        self.away = False

    def _answer(self) -> None:
        if self.away:
            raise HubUnavailable("The Hub does not answer. Try again in a moment.")

    async def share(self, user: str, server: str, person: str) -> str:
        self._answer()
        self.now.add((user, server, person))
        return f"http://{user}.localhost/user/{user}/{server}/"

    async def unshare(self, user: str, server: str, person: str) -> None:
        self._answer()
        self.now.discard((user, server, person))

    async def shares(self) -> list[tuple[str, str, str]]:
        self._answer()
        return sorted(self.now)


class Class(Site):
    """A course 'deep' with running sessions of student01, of student02 and of ada, who assists."""

    shares: Shares

    async def begin(self) -> None:
        self.shares = Shares()
        self.parts.parts_for(CourseParts).helping.hub = self.shares  # type: ignore[assignment]
        self.parts.parts_for(CourseParts).helping.subdomains = True
        await self.approved()
        await self.approved("ian", name="other")
        people = {"student01": Role.STUDENT, "student02": Role.STUDENT, "ada": Role.ASSISTANT}
        await self.put("deep", **people)
        for number, name in enumerate(people):
            await self.session(name, str(number))
        PEOPLE["student02"] = person("student02")

    async def session(
        self, user: str, job_id: str, course: str = "deep", kind: str = "course"
    ) -> SessionRecord:
        """One that runs; its token is "session-JOB"."""
        record = recorded(
            id=f"S{job_id}", user=user, server=f"{kind}-{course}", space=course, job_id=job_id,
            state=SessionState.RUNNING, submitted_at=time.time(),
        )  # fmt: skip
        await self.parts.store.sessions.save(record)
        view: Any = self.parts.dashboard.view
        view.sessions[job_id] = record
        job = Job(id=job_id, user=user, state=JobState.RUNNING)
        view.snapshot = view.snapshot.model_copy(
            update={"jobs": {**view.snapshot.jobs, job_id: job}}
        )
        PEOPLE[f"session-{job_id}"] = of_server(user, record.server)
        return record

    async def situation(self, job_id: str = "0") -> CourseSituation:
        courses = self.parts.parts_for(CourseParts).course_situations
        courses._classes.invalidate()
        found = await courses.status_of(self.parts.dashboard.view.sessions[job_id])  # type: ignore[union-attr]
        assert found is not None
        return found

    async def guests(self, job_id: str = "0") -> set[str]:
        said = await self.done(f"session-{job_id}", "GET", "session/guests")
        assert all(one["seconds"] > 0 for one in said["guests"])
        return {one["person"] for one in said["guests"]}

    async def granted(self, minutes: int = 10) -> int:
        """ada is in student01's session; the number of that."""
        asked = await self.done("ada", "POST", HELP, {"minutes": minutes})
        number = int(asked["help"]["id"])
        await self.done("session-0", "POST", f"session/help/{number}", {"answer": "agree"})
        assert await self.guests() == {"ada"}
        return number

    def passes(self, seconds: float) -> float:
        """Time passes; the machine's clock afterwards."""
        uptime = self.parts.parts_for(CourseParts).helping.uptime
        self.parts.parts_for(CourseParts).helping.uptime = lambda: uptime() + seconds
        return time.time() + seconds

    async def help(self, number: int) -> dict[str, Any]:
        """How it is kept."""
        said = await self.done("ada", "GET", "courses/deep/help")
        (found,) = [one for one in (*said["open"], *said["over"]) if one["id"] == number]
        return dict(found)


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Class]:
    monkeypatch.setattr("courses_site.Site", Class)
    before = dict(PEOPLE)
    async with running(tmp_path) as made:
        assert isinstance(made, Class)
        await made.begin()
        yield made
    PEOPLE.clear()
    PEOPLE.update(before)


# -- who is there --------------------------------------------------------------------------------


async def test_a_session_tells_who_is_there(site: Class) -> None:
    now, table = time.time(), site.parts.store.presence
    await site.done("session-0", "PUT", "session/presence", {"activity": 5})
    (first,) = await table.of_course("deep")
    assert (first.person, first.session_id, first.opened_at) == ("student01", "S0", None)
    body = {"opened": 60, "activity": 1, "notebooks": ["a.ipynb", "b\u202egnp.ipynb"]}
    await site.done("session-0", "PUT", "session/presence", body)
    (second,) = await table.of_course("deep")
    assert now - 61 <= second.opened_at <= time.time() - 59
    assert second.notebooks == ("a.ipynb", "b\ufffdgnp.ipynb")
    # A new server of the session that moved does not know when it was opened.
    await site.done("session-0", "PUT", "session/presence", {"opened": 3})
    assert (await table.of_course("deep"))[0].opened_at == second.opened_at
    # Another session is another seat.
    await site.session("student01", "7")
    await site.done("session-7", "PUT", "session/presence", {})
    (third,) = await table.of_course("deep")
    assert (third.session_id, third.opened_at, third.notebooks) == ("S7", None, ())


@pytest.mark.parametrize(
    "body",
    [
        {"opened": -1}, {"activity": "x"}, {"opened": 1e12}, {"notebooks": ["a"] * 51},
        {"notebooks": ["a" * 501]}, {"person": "student02"}, {"notebooks": "a"}, [],
    ],
)  # fmt: skip
async def test_what_is_no_presence_is_refused(site: Class, body: Any) -> None:
    await site.refused(400, "session-0", "PUT", "session/presence", body)
    assert await site.parts.store.presence.of_course("deep") == []


async def test_sessions_of_no_course_and_people_are_refused(site: Class) -> None:
    await site.session("eve", "8", course="", kind="x")
    for method, path in (
        ("PUT", "presence"), ("PUT", "hand"), ("DELETE", "hand"), ("GET", "guests"),
    ):  # fmt: skip
        body = {} if method == "PUT" else None
        await site.refused(409, "session-8", method, f"session/{path}", body)
        assert (await site.ask("ada", method, f"session/{path}", body)).status_code == 403
    # A server's name alone makes no session of a course.
    await site.session("eve", "9", course="")
    await site.refused(409, "session-9", "GET", "session/guests")


async def test_what_a_session_of_a_course_is_told(site: Class) -> None:
    found = await site.situation()
    assert (found.name, found.title, found.kind, found.role) == (
        "deep", "Deep Learning", "course", "student",
    )  # fmt: skip
    assert found.help_policy == "ask"
    rehearsal = await site.session("ada", "5", kind="rehearsal")
    told = await site.parts.parts_for(CourseParts).course_situations.status_of(rehearsal)
    assert told is not None and (told.kind, told.role) == ("rehearsal", "assistant")
    assert (
        await site.parts.parts_for(CourseParts).course_situations.status_of(
            rehearsal.model_copy(update={"space": ""})
        )
        is None
    )


# -- messages ------------------------------------------------------------------------------------


async def test_a_message_to_all(site: Class) -> None:
    body = {"text": " Ten minutes left ", "minutes": 10}
    before = time.time()
    made = await site.done("ada", "POST", "courses/deep/messages", body)
    assert (made["text"], made["by"]) == ("Ten minutes left", "ada")
    for job_id in ("0", "1", "2"):
        (seen,) = (await site.situation(job_id)).messages
        assert before + 599 <= seen.ends_at <= time.time() + 601
    await site.session("student01", "6", course="other")
    assert (await site.situation("6")).messages == ()
    # Another course's staff withdraws nothing here.
    path = f"messages/{made['id']}"
    await site.refused(404, "ian", "DELETE", f"courses/other/{path}")
    await site.done("barbara", "DELETE", f"courses/deep/{path}")
    assert (await site.situation()).messages == ()
    assert len((await site.done("ada", "GET", "courses/deep/messages"))["items"]) == 1
    await site.refused(404, "barbara", "DELETE", "courses/deep/messages/999999999")
    audit = await site.audit()
    assert ("ada", "message-course", "course deep", "done") in audit
    assert ("barbara", "withdraw-message", "course deep", "done") in audit


@pytest.mark.parametrize(
    "body",
    [{"text": ""}, {"text": "x" * 1001}, {"text": "a\u202eb"}, {"text": "x", "minutes": 0}, {}],
)
async def test_what_is_no_message_is_refused(site: Class, body: Any) -> None:
    await site.refused(400, "ada", "POST", "courses/deep/messages", body)


async def test_students_write_no_messages_and_not_too_many_are_shown(site: Class) -> None:
    await site.refused(403, "student01", "POST", "courses/deep/messages", {"text": "x"})
    for _ in range(10):
        await site.done("ada", "POST", "courses/deep/messages", {"text": "x"})
    said = await site.refused(409, "ada", "POST", "courses/deep/messages", {"text": "x"})
    assert "Withdraw one" in said["message"]


# -- hands ---------------------------------------------------------------------------------------


async def test_a_hand_goes_up_and_down(site: Class) -> None:
    await site.done("session-0", "PUT", "session/hand", {"text": "Cell 3 is red"})
    assert (await site.situation()).hand == "Cell 3 is red"
    assert (await site.situation("1")).hand == ""
    # What the session tells next does not lower it.
    await site.done("session-0", "PUT", "session/presence", {"opened": 1})
    (seen,) = await site.parts.store.presence.hands()
    assert (seen.person, seen.hand) == ("student01", "Cell 3 is red") and seen.opened_at
    await site.refused(403, "grace", "DELETE", "courses/deep/people/student01/hand")
    await site.refused(403, "ian", "DELETE", "courses/deep/people/student01/hand")
    await site.done("ada", "DELETE", "courses/deep/people/student01/hand")
    assert (await site.situation()).hand == ""
    await site.done("session-0", "PUT", "session/hand", {})
    assert (await site.situation()).hand
    await site.done("session-0", "DELETE", "session/hand")
    assert (await site.situation()).hand == ""
    await site.session("ada", "5", kind="preview")
    await site.refused(409, "session-5", "PUT", "session/hand", {})


# -- help ----------------------------------------------------------------------------------------


async def test_help_with_consent(site: Class) -> None:
    asked = await site.done("ada", "POST", HELP, {"minutes": 10})
    number = asked["help"]["id"]
    assert (asked["help"]["state"], asked["url"]) == ("asked", "")
    assert await site.guests() == set() and not site.shares.now
    (seen,) = (await site.situation()).help
    assert (seen.helper, seen.minutes, seen.state) == ("ada", 10, "asked")
    assert (await site.situation("1")).help == ()
    # Nobody else answers for the student, nor is it asked twice.
    await site.refused(404, "session-1", "POST", f"session/help/{number}", {"answer": "agree"})
    again = await site.done("ada", "POST", HELP, {"minutes": 20})
    assert again["help"]["id"] == number

    before = time.time()
    reply = await site.done("session-0", "POST", f"session/help/{number}", {"answer": "agree"})
    assert before + 599 <= reply["until"] <= time.time() + 601
    assert site.shares.now == {("student01", "course-deep", "ada")}
    assert await site.guests() == {"ada"} and await site.guests("1") == set()
    again = await site.done("ada", "POST", HELP, {"minutes": 10})
    assert again["url"] == "http://student01.localhost/user/student01/course-deep/"

    await site.done("session-0", "POST", f"session/help/{number}", {"answer": "end"})
    assert await site.guests() == set() and not site.shares.now
    stored = await site.help(number)
    assert (stored["state"], stored["ended_by"]) == ("ended", "student01")
    await site.refused(404, "session-0", "POST", f"session/help/{number}", {"answer": "agree"})
    lines = [
        (actor, action) for actor, action, _, outcome in await site.audit() if outcome == "done"
    ]
    for line in (
        ("ada", "ask-to-help"), ("student01", "agree-to-help"), ("portal", "grant-help"),
        ("student01", "end-help"),
    ):  # fmt: skip
        assert line in lines


async def test_a_helper_opens_the_session_from_the_portals_page(
    site: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "is_click", lambda handler: True)
    number = (await site.done("ada", "POST", HELP, {"minutes": 10}))["help"]["id"]
    door = f"courses/deep/help/{number}/enter"
    waits = await site.refused(409, "ada", "POST", door, {})
    assert waits["message"] == "student01 has not agreed to help from you."
    await site.done("session-0", "POST", f"session/help/{number}", {"answer": "agree"})
    await site.refused(409, "barbara", "POST", door, {})  # of the staff, and not the helper
    await site.refused(404, "ian", "POST", door.replace("deep", "other"), {})
    for who in ("grace", "student01", "student02", "eve"):
        await site.refused(403, who, "POST", door, {})
    await site.refused(405, "ada", "GET", door)
    assert site.hub.admitted == []
    opened = await site.done("ada", "POST", door, {})
    assert opened == {"url": "http://student01.localhost/user/student01/course-deep/"}
    assert site.hub.admitted == [("student01", "course-deep", "ada")]
    monkeypatch.undo()
    await site.refused(403, "ada", "POST", door, {})  # a token is no click
    await site.done("ada", "POST", f"courses/deep/help/{number}/end", {})
    monkeypatch.setattr(entry, "is_click", lambda handler: True)
    await site.refused(404, "ada", "POST", door, {})
    assert len(site.hub.admitted) == 1


async def test_a_student_refuses(site: Class) -> None:
    number = (await site.done("ada", "POST", HELP, {}))["help"]["id"]
    await site.done("session-0", "POST", f"session/help/{number}", {"answer": "refuse"})
    assert (await site.help(number))["state"] == "refused"
    assert not site.shares.now and (await site.situation()).help == ()
    assert ("student01", "refuse-help", "session S0", "done") in await site.audit()


async def test_the_course_may_need_no_consent(site: Class) -> None:
    stored = await site.parts.store.courses.get("deep")
    course = stored.course.model_copy(update={"help": "always"})
    await site.parts.store.courses.save(stored.model_copy(update={"course": course}))
    site.parts.memberships.forget()
    asked = await site.done("barbara", "POST", HELP, {"minutes": 5})
    assert asked["help"]["state"] == "granted" and asked["url"]
    (seen,) = (await site.situation()).help
    assert (seen.helper, seen.state) == ("barbara", "granted"), "seen by the student all the same"


async def test_who_may_not(site: Class) -> None:
    for who in ("grace", "ian", "eve", "student02", "student01"):
        await site.refused(403, who, "POST", HELP, {})
    for nobody in ("ada", "barbara", "eve", "nobody"):
        path = HELP.replace("student01", nobody)
        assert "not a student" in (await site.refused(404, "ada", "POST", path, {}))["message"]
    await site.refused(400, "ada", "POST", HELP, {"minutes": 31})
    await site.refused(400, "ada", "POST", HELP, {"minutes": 0})
    await site.put("deep", student03=Role.STUDENT)
    path = HELP.replace("student01", "student03")
    assert "no running session" in (await site.refused(409, "ada", "POST", path, {}))["message"]
    # One that runs elsewhere is none of this course's.
    await site.session("student03", "11", course="other")
    await site.session("student03", "12", kind="preview")
    await site.refused(409, "ada", "POST", path, {})
    assert not site.shares.now
    denied = [line for line in await site.audit() if line[1] == "denied"]
    assert {"grace", "ian", "eve", "student02"} <= {actor for actor, *_ in denied}


async def test_off(site: Class) -> None:
    site.parts.parts_for(CourseParts).helping.subdomains = False
    said = await site.refused(403, "ada", "POST", HELP, {})
    assert "subdomain_host" in said["message"]
    assert (await site.situation()).help_policy == "off"
    assert "subdomain_host" in (await site.done("ada", "GET", "courses/deep/help"))["why_off"]
    site.parts.parts_for(CourseParts).helping.subdomains = True
    stored = await site.parts.store.courses.get("deep")
    course = stored.course.model_copy(update={"help": "off"})
    await site.parts.store.courses.save(stored.model_copy(update={"course": course}))
    site.parts.memberships.forget()
    assert "off in this course" in (await site.refused(403, "ada", "POST", HELP, {}))["message"]


async def test_the_staff_ends_it(site: Class) -> None:
    number = await site.granted()
    await site.refused(404, "ian", "POST", f"courses/other/help/{number}/end")
    await site.refused(403, "student01", "POST", f"courses/deep/help/{number}/end")
    assert await site.guests() == {"ada"}
    await site.done("barbara", "POST", f"courses/deep/help/{number}/end")
    assert await site.guests() == set() and not site.shares.now
    assert (await site.help(number))["ended_by"] == "barbara"


@pytest.mark.parametrize(
    "over", ["time", "session", "helper", "student", "course", "role", "end_all"]
)
async def test_it_ends_by_itself(site: Class, over: str) -> None:
    number, now, store = await site.granted(), time.time(), site.parts.store
    look = site.parts.parts_for(CourseParts).helping.run_due
    await look(now)
    assert await site.guests() == {"ada"}, "nothing is over yet"
    if over == "time":
        now = site.passes(601)
    elif over == "session":
        record = await store.sessions.get("S0")
        assert record is not None
        await store.sessions.save(record.model_copy(update={"state": SessionState.ENDED}))
    elif over in ("helper", "student"):
        await store.members.remove("deep", ["ada" if over == "helper" else "student01"])
    elif over == "role":
        await site.put("deep", ada=Role.STUDENT)
    elif over == "course":
        stored = await store.courses.get("deep")
        await store.courses.save(stored.model_copy(update={"state": SpaceState.ARCHIVED}))
    if over == "end_all":
        await site.parts.parts_for(CourseParts).helping.end_all("other", "portal", now)
        assert await site.guests() == {"ada"}
        await site.parts.parts_for(CourseParts).helping.end_all("deep", "portal", now)
    else:
        await look(now)
        assert ("portal", "end-help", "session S0", "done") in await site.audit()
    assert not site.shares.now and await site.guests() == set()
    assert [one.state for one in await store.help.of_course("deep") if one.id == number] == [
        "ended"
    ]


async def test_nobody_is_in_once_the_time_is_over_whoever_looks(site: Class) -> None:
    before = time.time()
    await site.granted()
    helping_ = site.parts.parts_for(CourseParts).helping
    (left,) = helping_.guests("S0").values()
    assert before + 599 - time.time() <= left <= 601
    site.passes(601)
    assert helping_.guests("S0") == {}


STEPS = pytest.mark.parametrize(
    "steps", [(3600.0,), (-3600.0,), (3600.0, -3600.0), (-3600.0, 3600.0)], ids=str
)


@STEPS
async def test_a_helper_is_in_for_the_minutes_whatever_the_clock_says(
    site: Class, steps: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, number = SteppingClock(monkeypatch), await site.granted()
    look = site.parts.parts_for(CourseParts).helping.run_due
    for step in steps:
        clock.step(step)
        await look(time.time())
        assert await site.guests() == {"ada"} and site.shares.now
        # Neither Lab nor a page takes it for over, and both tell the end by the clock as it is.
        (seen,) = (await site.situation()).help
        assert seen.until == pytest.approx(time.time() + 600, abs=30)
        assert (await site.help(number))["until"] == seen.until
    await look(site.passes(580))
    assert await site.guests() == {"ada"}
    await look(site.passes(21))
    assert await site.guests() == set() and not site.shares.now
    assert (await site.help(number))["ended_by"] == "the time limit was reached"


@STEPS
async def test_a_question_waits_for_its_answer_whatever_the_clock_says(
    site: Class, steps: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppingClock(monkeypatch)
    number = (await site.done("ada", "POST", HELP, {}))["help"]["id"]
    for step in steps:
        clock.step(step)
        await site.parts.parts_for(CourseParts).helping.run_due(time.time())
        assert (await site.help(number))["state"] == "asked"
    await site.parts.parts_for(CourseParts).helping.run_due(site.passes(helping.ANSWER_WITHIN + 1))
    assert (await site.help(number))["ended_by"] == "the student did not answer"


@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_a_clock_that_is_set_while_the_service_is_away_makes_no_help_longer(
    site: Class, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, parts = SteppingClock(monkeypatch), site.parts
    await site.granted()
    clock.step(step)
    of_courses = parts.parts_for(CourseParts)
    before, of_courses.helping = of_courses.helping, helping.Helping(
        parts.store, site.shares, of_courses.settings, True, parts.note, parts.log  # type: ignore[arg-type]
    )  # fmt: skip
    assert before.guests("S0")
    await parts.parts_for(CourseParts).helping.run_due(time.time())
    assert await site.guests() == ({"ada"} if step < 0 else set())
    await parts.parts_for(CourseParts).helping.run_due(site.passes(601))
    assert await site.guests() == set() and not site.shares.now


@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_shares_are_looked_for_again_after_a_minute(
    site: Class, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppingClock(monkeypatch)
    await site.granted()
    await site.parts.parts_for(CourseParts).helping.run_due(time.time())
    clock.step(step)
    site.shares.now.add(("student02", "course-deep", "eve"))
    await site.parts.parts_for(CourseParts).helping.run_due(site.passes(61))
    assert site.shares.now == {("student01", "course-deep", "ada")}


async def test_a_question_that_nobody_answers(site: Class) -> None:
    number = (await site.done("ada", "POST", HELP, {}))["help"]["id"]
    await site.parts.parts_for(CourseParts).helping.run_due(site.passes(helping.ANSWER_WITHIN + 1))
    stored = await site.help(number)
    assert (stored["state"], stored["ended_by"]) == ("ended", "the student did not answer")


async def test_the_service_begins_anew(site: Class) -> None:
    number, parts = await site.granted(), site.parts

    def anew() -> helping.Helping:
        return helping.Helping(
            parts.store,
            site.shares,
            parts.parts_for(CourseParts).settings,
            True,
            parts.note,
            parts.log,  # type: ignore[arg-type]
        )

    parts.parts_for(CourseParts).helping = anew()
    await parts.parts_for(CourseParts).helping.run_due(time.time())
    assert await site.guests() == {"ada"} and site.shares.now
    # It was away when the time was over.
    parts.parts_for(CourseParts).helping = anew()
    await parts.parts_for(CourseParts).helping.run_due(time.time() + 601)
    assert await site.guests() == set() and not site.shares.now
    assert (await site.help(number))["state"] == "ended"


async def test_shares_that_are_no_help_are_taken_back(site: Class) -> None:
    await site.granted()
    site.shares.now |= {("student01", "course-deep", "eve"), ("student02", "course-deep", "ada")}
    await site.parts.parts_for(CourseParts).helping.run_due(time.time())
    assert site.shares.now == {("student01", "course-deep", "ada")}


async def test_the_hub_is_away_at_the_end(site: Class) -> None:
    """Nobody is in from then on; the share goes when the Hub is back."""
    number = await site.granted()
    site.shares.away = True
    await site.done("ada", "POST", f"courses/deep/help/{number}/end")
    assert await site.guests() == set() and site.shares.now
    with pytest.raises(HubUnavailable):
        await site.parts.parts_for(CourseParts).helping.run_due(time.time())
    site.shares.away = False
    await site.parts.parts_for(CourseParts).helping.run_due(time.time() + 1)
    assert not site.shares.now


async def test_a_session_that_slurm_was_not_asked_about_yet_lets_in_whom_it_may(
    site: Class,
) -> None:
    """It began a moment ago; one that is over lets nobody in."""
    await site.granted()
    view: Any = site.parts.dashboard.view
    record = view.sessions.pop("0")
    assert await site.guests() == {"ada"}
    over = {"state": SessionState.ENDED, "ended_at": time.time()}
    await site.parts.store.sessions.save(record.model_copy(update=over))
    await site.refused(503, "session-0", "GET", "session/guests")


async def test_the_hub_is_away_at_the_beginning(site: Class) -> None:
    number = (await site.done("ada", "POST", HELP, {}))["help"]["id"]
    site.shares.away = True
    await site.refused(503, "session-0", "POST", f"session/help/{number}", {"answer": "agree"})
    assert await site.guests() == set()
    assert (await site.help(number))["state"] == "ended"


async def test_the_database_is_away_at_the_end(
    site: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, table = await site.granted(), site.parts.store.help

    async def away(_: Any) -> None:
        raise StoreUnavailable("The database does not answer.")

    with monkeypatch.context() as context:
        context.setattr(table, "save", away)
        await site.done("session-0", "POST", f"session/help/{number}", {"answer": "end"})
        assert await site.guests() == set() and not site.shares.now
    await site.parts.parts_for(CourseParts).helping.run_due(time.time())
    assert (await site.help(number))["state"] == "ended"


async def test_a_server_that_is_gone_has_no_share(
    site: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await site.granted()

    async def gone(*_: str) -> None:
        raise NotFound("There is no such course session.")

    monkeypatch.setattr(site.shares, "unshare", gone)
    await site.done("ada", "POST", f"courses/deep/help/{number}/end")
    assert (await site.help(number))["state"] == "ended"
