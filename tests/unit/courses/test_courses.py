"""Courses through the API: who makes one, what is wrong with it, who approves, who is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from courses_site import DEEP, PEOPLE, Site, running
from session_records import recorded

from portal.handlers.courses.access import CourseAction
from portal.handlers.routes import endpoints
from portal.models.catalog.environment import Environment
from portal.models.session.session import SessionState
from portal.models.space import Role
from portal.work.course.parts import CourseParts


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path) as made:
        yield made


# -- who may ------------------------------------------------------------------------------------


def routes() -> list[tuple[type[Any], str, str]]:
    """Every endpoint below a course, with each of its methods and an address."""
    words = {"person": "student01", "number": "1"}
    found = []
    for kind in endpoints():
        if not kind.path.startswith("courses/{course}"):
            continue
        path = kind.path.replace("{course}", "deep")
        for name in kind.parameters:
            path = path.replace("{" + name + "}", words.get(name, "1"))
        found += [(kind, method.upper(), path) for method in kind.operations]
    return found


async def test_every_route_of_a_course_is_closed_to_others(site: Site) -> None:
    """An outsider, another course's instructor, and people of a course that is not there: 403 in
    the same words, each with a line in the audit log."""
    await site.approved()
    await site.approved("ian", name="other")
    walked = routes()
    assert len(walked) > 10
    for who in ("eve", "ian"):
        for kind, method, path in walked:
            assert issubclass(kind, CourseAction), f"{kind} does not ask who may"
            before = len(await site.audit())
            error = await site.refused(403, who, method, path)
            lines = (await site.audit())[: len(await site.audit()) - before]
            assert len(lines) == 1, (kind, method, lines)
            actor, action, target, outcome = lines[0]
            assert (actor, action, outcome) == (who, "denied", "refused")
            assert "deep" in target
            missing = await site.refused(403, who, method, path.replace("deep", "nowhere"))
            assert missing["message"].replace("nowhere", "deep") == error["message"]


async def test_what_takes_an_instructor_or_an_admin(site: Site) -> None:
    await site.approved()
    await site.put("deep", ada=Role.ASSISTANT, student01=Role.STUDENT)
    for kind, method, path in routes():
        roles = kind.roles if method == "GET" or kind.changers is None else kind.changers
        for who, role in {"ada": Role.ASSISTANT, "student01": Role.STUDENT}.items():
            if role not in roles:
                await site.refused(403, who, method, path)
    taken = [
        ("PUT", ""), ("POST", "/submit"), ("POST", "/approve"), ("POST", "/refuse"),
        ("POST", "/archive"), ("POST", "/copy"), ("POST", "/roster"),
        ("DELETE", "/roster?person=student01"),
    ]  # fmt: skip
    for method, path in taken:
        await site.refused(403, "ada", method, f"courses/deep{path}", {"number": 1})
    for path in ("", "/roster", "/readiness", "/usage", "/roster.csv", "/usage.csv"):
        await site.refused(403, "student01", "GET", f"courses/deep{path}")
        answer = await site.ask("ada", "GET", f"courses/deep{path}")
        assert answer.status_code == 200, answer.text
    # An instructor approves nothing, not even their own.
    await site.refused(403, "barbara", "POST", "courses/deep/approve", {"number": 1})


@pytest.mark.parametrize(
    ("creation", "who", "status"),
    [
        ("request", "barbara", 201),
        ("request", "student01", 403),
        ("free", "student01", 403),
        ("off", "barbara", 403),
        ("off", "grace", 201),
    ],
)
async def test_who_makes_courses(site: Site, creation: str, who: str, status: int) -> None:
    site.parts.parts_for(CourseParts).settings.creation = creation
    answer = await site.ask(who, "POST", "courses", {"course": DEEP})
    assert answer.status_code == status, answer.text
    if status == 403:
        assert ("denied", "courses") in [(a, t) for _, a, t, _ in await site.audit()]
    await site.refused(
        403, "barbara", "POST", "courses", {"course": DEEP | {"name": "x"}, "instructor": "ian"}
    )


# -- from the draft to the archive ----------------------------------------------------------------


async def test_from_the_draft_to_the_archive(site: Site) -> None:
    made = await site.make()
    assert (made["state"], made["number"], made["role"]) == ("draft", 1, "instructor")
    assert made["pinned"]["title"] == "Lab"
    assert set(made["may"]) == {"edit", "submit", "archive", "copy", "roster"}
    # What is taken says so; a number that is not the newest, too.
    await site.refused(409, "ian", "POST", "courses", {"course": DEEP})
    edit = {"course": DEEP | {"title": "Deeper"}, "number": 1}
    assert (await site.done("barbara", "PUT", "courses/deep", edit))["number"] == 2
    await site.refused(409, "barbara", "PUT", "courses/deep", edit)
    assert (await site.done("grace", "GET", "courses"))["items"][0]["state"] == "draft"

    asked = await site.done("barbara", "POST", "courses/deep/submit", {"number": 2})
    assert asked["state"] == "requested"
    waiting = await site.done("grace", "GET", "courses?state=requested")
    assert [one["name"] for one in waiting["items"]] == ["deep"]
    await site.refused(400, "grace", "POST", "courses/deep/refuse", {"number": 3})
    no = {"number": 3, "answer": "Fewer GPUs, please."}
    refused = await site.done("grace", "POST", "courses/deep/refuse", no)
    assert (refused["state"], refused["answer"]) == ("refused", "Fewer GPUs, please.")
    mine = await site.done("barbara", "GET", "courses")
    assert mine["items"][0]["answer"] == "Fewer GPUs, please."

    edit = {"course": DEEP | {"budget": 10}, "number": 4}
    assert (await site.done("barbara", "PUT", "courses/deep", edit))["state"] == "draft"
    await site.done("barbara", "POST", "courses/deep/submit", {"number": 5})
    yes = await site.done("grace", "POST", "courses/deep/approve", {"number": 6})
    assert (yes["state"], yes["answered_by"], yes["runs"]) == ("approved", "grace", False)

    gone = await site.done("barbara", "POST", "courses/deep/archive", {"number": 7})
    assert gone["state"] == "archived" and gone["archived_at"]
    edit["number"] = 8
    await site.refused(409, "barbara", "PUT", "courses/deep", edit)
    await site.refused(409, "barbara", "POST", "courses/deep/roster", {"text": "student01"})
    done = [action for _, action, _, outcome in await site.audit() if outcome == "done"]
    assert done[::-1] == [
        "create-course", "edit-course", "submit-course", "refuse-course", "edit-course",
        "submit-course", "approve-course", "archive-course",
    ]  # fmt: skip


async def test_students_see_a_course_when_it_is_approved(site: Site) -> None:
    await site.make()
    await site.put("deep", student01=Role.STUDENT)
    assert (await site.done("student01", "GET", "courses"))["items"] == []
    await site.done("grace", "POST", "courses/deep/approve", {"number": 1})
    (one,) = (await site.done("student01", "GET", "courses"))["items"]
    assert (one["name"], one["role"]) == ("deep", "student")
    assert (await site.done("eve", "GET", "courses"))["total"] == 0


async def test_where_courses_are_free_nobody_needs_to_approve(site: Site) -> None:
    site.parts.parts_for(CourseParts).settings.creation = "free"
    await site.make()
    free = await site.done("barbara", "POST", "courses/deep/submit", {"number": 1})
    assert free["state"] == "approved"
    more = {"course": DEEP | {"budget": None}, "number": 2}
    assert (await site.done("barbara", "PUT", "courses/deep", more))["state"] == "approved"


async def test_more_than_was_approved_takes_an_admin(site: Site) -> None:
    kept = await site.approved(account="teaching")
    for change, field in (
        ({"budget": None}, "budget"),
        ({"budget": 200}, "budget"),
        ({"largest": DEEP["largest"] | {"cpus": 8}}, "largest.cpus"),
        ({"largest": DEEP["largest"] | {"memory": None}}, "largest.memory"),
        ({"account": None}, "account"),
        ({"reservation": {"nodes": 1}}, "reservation.nodes"),
        ({"ends": "2031-03-07"}, "ends"),
        ({"help": "always"}, "help"),
        ({"default": DEEP["default"] | {"partition": "gpu"}}, "default.partition"),
    ):
        course = DEEP | {"account": "teaching"} | change
        edit = {"course": course, "number": kept["number"]}
        error = await site.refused(400, "barbara", "PUT", "courses/deep", edit)
        assert field in {one["field"] for one in error["problems"]}, error
        assert "Ask an admin to change it" in error["message"]
    less = {"course": DEEP | {"account": "teaching", "budget": 5}, "number": kept["number"]}
    less = await site.done("barbara", "PUT", "courses/deep", less)
    more = {"course": DEEP | {"account": "teaching", "budget": 500}, "number": less["number"]}
    assert (await site.done("grace", "PUT", "courses/deep", more))["course"]["budget"] == 500


# -- what is wrong with one -----------------------------------------------------------------------


VALUES: dict[str, dict[Any, str]] = {
    "name": {"new": "Choose another", "Deep!": "match"},
    "environment": {
        **{name: f"no environment '{name}'" for name in ("nowhere", "secret")},
        "venv": "is not a container",
        "beside": "outside its container",
    },
    "version": {7: "no version 7"},
    "timezone": {"Mars/Olympus": "not a time zone"},
    "ends": {"2030-01-01": "last day is before"},
    "data": dict.fromkeys(("/etc", "/data/courses/../../etc", "/data/courses2"), "is not in"),
    "account": {"nobodys": "no account 'nobodys'"},
}
WRONG: list[tuple[dict[str, Any], str, str]] = [
    *(({name: value}, name, told) for name in VALUES for value, told in VALUES[name].items()),
    ({"begins": "1999-01-01"}, "", "years"),
    ({"handouts": {"kind": "folder", "source": "/root"}}, "handouts.source", "is not in"),
    ({"handouts": {"kind": "folder"}}, "handouts.source", "path of the folder"),
    (
        {"handouts": {"kind": "git", "source": "file:///etc"}},
        "handouts.source",
        "not a valid address",
    ),
    (
        {"handouts": {"kind": "git", "source": "https://a:b@git.example.org/x"}},
        "handouts.source",
        "user name and password",
    ),
    ({"handouts": {"source": "/data/courses/x"}}, "handouts.kind", "Choose the kind"),
    ({"default": {"gpus": 1, "account": "x"}}, "default.account", "'account' of the course"),
    ({"default": {"cpus": 16}}, "default.cpus", "exceeds the maximum"),
    ({"largest": {"gpus": 4}}, "largest", "'Lab' allows at most 2 GPUs"),
    ({"largest": {"gpus": 1, "gpu_type": "h100"}}, "largest.gpu_type", "Available: v100"),
    ({"default": {"partition": "cpu"}}, "default.partition", "no partition 'cpu'"),
    ({"reservation": {"nodes": 3}}, "reservation.nodes", "has 2 nodes, not 3"),
    (
        {"reservation": {"nodes": 3, "partition": "gpu"}},
        "reservation.nodes",
        "'gpu' has 2 nodes",
    ),
    (
        {"single": [{"date": "2029-01-01", "begins": "09:00", "minutes": 60}]},
        "single.0.date",
        "not between",
    ),
    (
        {"weekly": [{"day": 0, "begins": "25:00", "minutes": 60}]},
        "weekly.0.begins",
        "match",
    ),
    (
        {
            "weekly": [
                {"day": 0, "begins": "09:00", "minutes": 90},
                {"day": 0, "begins": "10:00", "minutes": 90},
            ]
        },
        "weekly",
        "overlap",
    ),
]


async def test_each_problem_names_its_field(site: Site) -> None:
    for change, field, words in WRONG:
        body = {"course": DEEP | change}
        answer = await site.done("barbara", "POST", "courses/validate", body)
        found = [one for one in answer["problems"] if not one["hint"]]
        told = [one for one in found if one["field"] == field and words in one["message"]]
        assert told, (change, found)
        await site.refused(400, "barbara", "POST", "courses", body)


async def test_a_site_says_which_groups_can_be_a_roster(site: Site) -> None:
    site.parts.parts_for(CourseParts).course_service.rules.settings.roster_groups = [
        "course-*",
        "students",
    ]
    for group, fine in (("course-deep", True), ("students", True), ("staff", False)):
        body = {"course": DEEP | {"roster_group": group}}
        found = (await site.done("barbara", "POST", "courses/validate", body))["problems"]
        told = [one["message"] for one in found if one["field"] == "roster_group"]
        assert told == (
            []
            if fine
            else [
                "The group 'staff' is not allowed as a roster. "
                "Allowed groups: 'course-*', 'students'."
            ]
        )


async def test_a_form_that_is_fine_and_one_with_much_wrong(site: Site) -> None:
    fine = await site.done("barbara", "POST", "courses/validate", {"course": DEEP})
    assert (fine["problems"], fine["environment_title"], fine["meetings"]) == ([], "Lab", 18)
    bad = {"course": {"name": "X", "weekly": [{"day": 9}], "colour": "red"}}
    found = (await site.done("barbara", "POST", "courses/validate", bad))["problems"]
    fields = {one["field"] for one in found}
    assert {"name", "title", "environment", "begins", "weekly.0.day", "colour"} <= fields
    night = DEEP | {
        "single": [{"date": "2030-10-27", "begins": "02:30", "minutes": 60}],
        "weekly": [],
        "begins": "2030-03-01",
    }
    night["single"].append({"date": "2030-03-31", "begins": "02:30", "minutes": 60})
    (hint,) = (await site.done("barbara", "POST", "courses/validate", {"course": night}))[
        "problems"
    ]
    assert hint["hint"] and "31 Mar 2030, 03:30" in hint["message"]
    await site.refused(403, "eve", "POST", "courses/validate", {"course": DEEP})
    await site.refused(403, "ian", "POST", "courses/validate", {"course": DEEP, "name": "nowhere"})


async def test_the_environment_stays_in_its_version(site: Site) -> None:
    store, lab = site.parts.store, site.parts.catalog
    await lab.load()
    first = lab.environments["lab"]
    add = {"author": "grace", "at": 1.0, "origin": "page", "state": "ready"}
    await store.versions.add_version(first, **add, published_at=1.0)  # type: ignore[arg-type]
    kept = await site.approved()
    assert kept["pinned"] == {
        "title": "Lab", "image": "/images/lab.sif", "digest": "", "version": 1,
    }  # fmt: skip
    # The catalog goes on, and then withdraws it.
    newer = first.model_copy(update={"image": "/images/newer.sif"})
    await store.versions.add_version(newer, **add, published_at=2.0)  # type: ignore[arg-type]
    text = "name: lab\ntitle: Lab\nkind: container\nimage: /images/newer.sif\nmax_gpus: 2\n"
    (site.files / "lab.yaml").write_text(text + "state: withdrawn\n")
    await store.versions.change("lab", 1, state="withdrawn")
    same = kept["course"] | {"title": "Deeper"}
    edit = {"course": same, "number": kept["number"]}
    kept = await site.done("barbara", "PUT", "courses/deep", edit)
    assert kept["pinned"]["image"] == "/images/lab.sif"
    # Asked for the newest, it is what the catalog has.
    edit = {"course": same | {"version": None}, "number": kept["number"]}
    error = await site.refused(400, "barbara", "PUT", "courses/deep", edit)
    assert "withdrawn" in error["message"]
    (site.files / "lab.yaml").write_text(text)
    kept = await site.done("barbara", "PUT", "courses/deep", edit)
    assert (kept["pinned"]["image"], kept["course"]["version"]) == ("/images/newer.sif", 2)
    # The old one can be had again once it may be used.
    edit = {"course": same | {"version": 1}, "number": kept["number"]}
    await site.refused(400, "barbara", "PUT", "courses/deep", edit)
    await store.versions.change("lab", 1, state="deprecated")
    kept = await site.done("barbara", "PUT", "courses/deep", edit)
    assert kept["pinned"]["image"] == "/images/lab.sif"


async def test_a_version_that_was_not_tested_is_none(site: Site) -> None:
    draft = Environment(name="lab", title="Lab", kind="container", image="/draft.sif")
    await site.parts.store.versions.add_version(draft, author="grace", at=1.0, origin="page")  # type: ignore[arg-type]
    error = await site.refused(400, "barbara", "POST", "courses", {"course": DEEP | {"version": 1}})
    assert error["problems"][0]["field"] == "version"
    assert "passed its test" in error["message"]


# -- who is in it ---------------------------------------------------------------------------------


async def test_a_roster_of_known_and_unknown_names(site: Site) -> None:
    await site.make()
    text = "\ufeffName;Username\nA;student01\nB;STUDENT02\nC;student01\nD;nobody\nE;=cmd|x\n"
    done = await site.done("barbara", "POST", "courses/deep/roster", {"text": text})
    assert done["added"] == ["student01", "student02"]
    assert (done["twice"], done["unknown"], done["checked"]) == (["student01"], ["nobody"], True)
    assert done["problems"] == [{"line": 6, "message": "'=cmd|x' is not a user name."}]
    roster = await site.done("barbara", "GET", "courses/deep/roster")
    assert {one["person"]: one["role"] for one in roster["items"]} == {
        "barbara": "instructor", "student01": "student", "student02": "student",
    }  # fmt: skip
    # Once more: nothing changes, and nobody leaves because a line of the list was wrong.
    again = {"text": "student02\nnobody", "replace": True}
    done = await site.done("barbara", "POST", "courses/deep/roster", again)
    assert (done["added"], done["removed"], done["there"]) == ([], [], ["student02"])
    again["text"] = "student02"
    done = await site.done("barbara", "POST", "courses/deep/roster", again)
    assert done["removed"] == ["student01"]
    csv = await site.ask("barbara", "GET", "courses/deep/roster.csv")
    assert csv.text.splitlines()[1].startswith("barbara,instructor,list,barbara,")
    assert 'filename="deep-roster.csv"' in csv.headers["Content-Disposition"]


async def test_roles_and_the_last_instructor(site: Site) -> None:
    await site.make()
    roster = "courses/deep/roster"
    await site.done("barbara", "POST", roster, {"text": "ada", "role": "assistant"})
    # The list of students has its staff in it, as lists have.
    done = await site.done("barbara", "POST", roster, {"text": "ada barbara student01"})
    assert (done["added"], set(done["there"])) == (["student01"], {"ada", "barbara"})
    # Who may not run courses does not become an instructor, but by an admin.
    more = {"text": "student01 ian", "role": "instructor"}
    done = await site.done("barbara", "POST", roster, more)
    assert (done["added"], done["refused"]) == (["ian"], ["student01"])
    done = await site.done("grace", "POST", roster, {"text": "student01", "role": "instructor"})
    assert done["added"] == ["student01"]
    for name in ("student01", "ian"):
        await site.done("barbara", "DELETE", f"{roster}?person={name}")
    await site.refused(409, "barbara", "DELETE", f"{roster}?person=barbara")
    await site.refused(409, "barbara", "POST", roster, {"text": "barbara", "role": "assistant"})
    await site.refused(404, "barbara", "DELETE", f"{roster}?person=nobody")
    await site.refused(400, "barbara", "DELETE", roster)


async def test_where_nobody_can_be_asked(site: Site) -> None:
    await site.make()
    site.directory.away = True
    await site.refused(503, "barbara", "POST", "courses/deep/roster", {"text": "student01"})
    site.directory.on = False
    done = await site.done("barbara", "POST", "courses/deep/roster", {"text": "student01 x9"})
    assert (done["added"], done["checked"]) == (["student01", "x9"], False)
    more = {"text": "ian", "role": "instructor"}
    assert (await site.done("barbara", "POST", "courses/deep/roster", more))["refused"] == ["ian"]


async def test_a_directory_that_does_not_know_everybody(site: Site) -> None:
    """As the Hub, which knows those who have logged in."""
    await site.make()
    site.directory.complete = False
    done = await site.done("barbara", "POST", "courses/deep/roster", {"text": "student01 x9"})
    assert (done["added"], done["unknown"], done["checked"]) == (["student01", "x9"], [], False)
    more = {"text": "ian x9", "role": "instructor"}
    done = await site.done("barbara", "POST", "courses/deep/roster", more)
    assert (done["added"], done["refused"]) == (["ian"], ["x9"])
    site.directory.groups["dl101"] = ("student02",)
    await site.approved("ian", name="other", roster_group="dl101")
    await site.parts.parts_for(CourseParts).course_service.enrolment.run_due(1000.0)
    items = (await site.done("ian", "GET", "courses/other/roster"))["items"]
    assert {one["person"] for one in items} == {"ian", "student02"}


async def test_whoever_leaves_has_no_session_of_it_any_more(site: Site) -> None:
    await site.approved()
    await site.put("deep", student01=Role.STUDENT, student02=Role.STUDENT)
    for number, (user, course, state) in enumerate(
        [
            ("student01", "deep", SessionState.RUNNING),
            ("student01", "", SessionState.RUNNING),
            ("student02", "deep", SessionState.RUNNING),
            ("student01", "deep", SessionState.ENDED),
        ]
    ):
        server = f"course-{course}" if course else ""
        await site.parts.store.sessions.save(
            recorded(
                id=f"s{number}", user=user, server=server, space=course, state=state,
                submitted_at=1.0, ended_at=2.0 if state is SessionState.ENDED else None,
            )
        )  # fmt: skip
    await site.done("barbara", "DELETE", "courses/deep/roster?person=student01")
    assert [stop[:2] for stop in site.hub.stopped] == [("student01", "course-deep")]


async def test_a_group_of_the_directory_is_copied(site: Site) -> None:
    site.directory.groups["dl101"] = ("student01", "student02", "barbara")
    await site.approved(roster_group="dl101")
    await site.put("deep", student09=Role.STUDENT)
    enrolment = site.parts.parts_for(CourseParts).course_service.enrolment

    async def people() -> dict[str, tuple[str, str]]:
        items = (await site.done("barbara", "GET", "courses/deep/roster"))["items"]
        return {one["person"]: (one["role"], one["source"]) for one in items}

    await enrolment.run_due(1000.0)
    assert await people() == {
        "barbara": ("instructor", "list"),
        "student01": ("student", "group"),
        "student02": ("student", "group"),
        "student09": ("student", "list"),
    }
    # One is listed, too; then the group changes. Nothing is asked before its time.
    await site.done("barbara", "POST", "courses/deep/roster", {"text": "student02"})
    site.directory.groups["dl101"] = ("student03",)
    await enrolment.run_due(1000.0 + site.parts.parts_for(CourseParts).settings.roster_interval - 1)
    assert "student03" not in await people()
    await enrolment.run_due(1000.0 + site.parts.parts_for(CourseParts).settings.roster_interval)
    assert set(await people()) == {"barbara", "student02", "student03", "student09"}
    # Whoever is in the group would come back.
    error = await site.refused(409, "barbara", "DELETE", "courses/deep/roster?person=student03")
    assert "Remove them from the group" in error["message"]
    # A directory that is away, or a group that is gone, takes nobody off; the page says why.
    del site.directory.groups["dl101"]
    await enrolment.run_due(1e6)
    assert set(await people()) == {"barbara", "student02", "student03", "student09"}
    roster = await site.done("barbara", "GET", "courses/deep/roster")
    assert roster["group_error"] == "The directory has no group 'dl101'."


async def test_a_large_roster(site: Site) -> None:
    await site.make()
    names = [f"s{n:04}" for n in range(5000)]
    site.directory.people |= set(names)
    done = await site.done("barbara", "POST", "courses/deep/roster", {"text": "\n".join(names)})
    assert len(done["added"]) == 5000
    assert len((await site.done("barbara", "GET", "courses/deep/roster"))["items"]) == 5001
    more = {"text": "\n".join(f"t{n}" for n in range(9000))}
    site.directory.on = False
    await site.refused(400, "barbara", "POST", "courses/deep/roster", more)


# -- the next term --------------------------------------------------------------------------------


async def test_a_copy_for_the_next_term(site: Site) -> None:
    await site.approved(
        single=[{"date": "2030-11-08", "begins": "10:00", "minutes": 60}],
        without=["2030-12-23"],
        roster_group="dl101",
    )
    await site.put("deep", ada=Role.ASSISTANT, student01=Role.STUDENT)
    body = {"name": "deep-2031", "begins": "2031-04-08"}
    made = await site.done("barbara", "POST", "courses/deep/copy", body)
    course = made["course"]
    assert (made["state"], course["title"]) == ("draft", "Deep Learning")
    assert (course["begins"], course["ends"]) == ("2031-04-08", "2031-08-09")
    # 183 days later, and still a Friday.
    assert course["single"] == [{"date": "2031-05-09", "begins": "10:00", "minutes": 60}]
    assert (course["without"], course["roster_group"]) == ([], "")
    roster = await site.done("barbara", "GET", "courses/deep-2031/roster")
    assert {one["person"] for one in roster["items"]} == {"barbara", "ada"}
    await site.refused(409, "barbara", "POST", "courses/deep/copy", body)
    body |= {"name": "deep-full", "students": True}
    await site.done("barbara", "POST", "courses/deep/copy", body)
    roster = await site.done("barbara", "GET", "courses/deep-full/roster")
    assert "student01" in {one["person"] for one in roster["items"]}
    site.parts.parts_for(CourseParts).settings.creation = "off"
    await site.refused(403, "barbara", "POST", "courses/deep/copy", body)


async def test_meetings(site: Site) -> None:
    await site.make()
    found = await site.done("ada", "GET", "courses") if "ada" not in PEOPLE else None
    assert found is None
    await site.put("deep", student01=Role.STUDENT)
    span = "?since=1917000000&until=1934000000"
    answer = await site.done("student01", "GET", f"courses/deep/meetings{span}")
    assert (len(answer["items"]), answer["timezone"]) == (18, "Europe/Berlin")
    await site.refused(400, "student01", "GET", "courses/deep/meetings?since=2&until=1")
