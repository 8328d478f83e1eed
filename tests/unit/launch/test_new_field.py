"""A new field of the table is in every form and dialog without another line of code. In a session:
tests/unit/kernels/job_kernels/test_offer.py; in the scripts of pages: tests/browser."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from run_fields import CLUSTER, NODES, run_fields
from toy_field import TOY, add_toy

from portal.courses.settings import Courses
from portal.handlers.pages.courses import CourseNewPage
from portal.handlers.pages.curate import CurateEnvironmentPage, CurateNewPage
from portal.handlers.pages.pages import Page
from portal.handlers.pages.rendering import Pages
from portal.launch.choices.dialog_fields import fields_of_move
from portal.launch.choices.form_fields import form_fields
from portal.launch.fields import FIELDS
from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.models.scope import COURSES_CREATE, ENVIRONMENTS_MANAGE
from portal.models.session.resources import Resources
from portal.work.course.parts import CourseParts
from spawners.form.form import LaunchForm

GRACE = Person(name="grace", scopes=frozenset({COURSES_CREATE, ENVIRONMENTS_MANAGE}))
TORCH = Environment(name="torch", title="PyTorch", kind="venv", path="/venv")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    add_toy(monkeypatch)


class Catalog:
    async def load(self) -> None:
        pass

    def visible_to(self, person: Person) -> list[Environment]:
        return []


async def sent(kind: type[Page], element: str, *segments: str) -> Any:
    """The JSON that a page sends to its script."""
    page: Any = kind.__new__(kind)
    view = SimpleNamespace(snapshot=CLUSTER)
    parts = SimpleNamespace(
        catalog=Catalog(),
        of_features={CourseParts: SimpleNamespace(settings=Courses())},
        dashboard=SimpleNamespace(view=view),
    )
    page.application, page.person = SimpleNamespace(settings={"parts": parts}), GRACE
    html = Pages(prefix="/services/portal/", hub_prefix="/hub/").render(
        page.template_of(*segments), GRACE, nonce="1", **await page.variables(*segments)
    )
    found = re.search(rf'(?s)id="{element}">\s*(.*?)</script>', html)
    assert found, html
    return json.loads(found[1])


def names(fields: list[dict[str, Any]]) -> list[str]:
    return [field["name"] for field in fields]


TABLE = [field.name for field in FIELDS]


@pytest.mark.parametrize(
    ("kind", "segments"),
    [(CurateNewPage, ()), (CurateEnvironmentPage, ("torch", "edit"))],
    ids=["new", "edit"],
)
async def test_the_form_of_an_environment(
    toy: None, kind: type[Page], segments: tuple[str, ...]
) -> None:
    fields = await sent(kind, "resource-fields", *segments)
    assert names(fields) == [*TABLE, "licenses"]
    assert fields[-1] == {
        "name": "licenses",
        "label": "Licenses",
        "number": False,
        "usual": None,
        "help": "Licenses such as matlab:2.",
        "values": [],
    }


async def test_the_form_of_a_course(toy: None) -> None:
    fields = (await sent(CourseNewPage, "course-facts"))["editing"]["fields"]
    # Two are set once for the whole course, in fields of their own.
    elsewhere = {"account", "reservation"}
    assert names(fields) == [*(name for name in TABLE if name not in elsewhere), "licenses"]


async def test_the_launch_form(toy: None) -> None:
    form = LaunchForm()
    form.load()
    html = form.render(form.view(CLUSTER, [TORCH], None, GRACE))
    assert 'id="launch-licenses" name="licenses"' in html
    assert '{"folded": true, "name": "licenses"}' in html


def test_the_dialogs_of_the_session(toy: None) -> None:
    for fields in (fields_of_move(NODES), run_fields()):
        (dialog,) = [field for field in fields if field.name == TOY.name]
        assert (dialog.label, dialog.values) == ("Licenses", None)


def test_the_forms_know_numbers_defaults_and_what_the_cluster_has() -> None:
    fields = {field.name: field for field in form_fields(CLUSTER)}
    assert [field.name for field in fields.values() if field.number] == ["gpus", "cpus", "nodes"]
    assert (fields["gpus"].usual, fields["nodes"].usual, fields["cpus"].usual) == (0, 1, None)
    assert fields["gpu_type"].values == ("v100",)
    assert fields["constraint"].values == ("nvlink",)
    assert fields["partition"].values == ("cpu", "gpu")
    assert fields["gpus"].help == ""
    assert fields["memory"].help == "Per node, such as 16G."
    assert fields["time"].help == "A time such as 2:00:00 or 1-00:00:00."


def test_without_a_cluster_the_forms_suggest_nothing() -> None:
    assert [field.name for field in form_fields(None)] == TABLE
    assert not any(field.values for field in form_fields(None))


@pytest.mark.parametrize(
    ("typed", "option"),
    [
        ("16G", "16G"),
        ("16 gb", "16G"),
        ("16GiB", "16G"),
        ("512 MIB", "512M"),
        ("1t", "1T"),
        ("0G", "0G"),
        ("16", "16"),
        ("16 K", "16 K"),
        ("lots", "lots"),
        ("", ""),
    ],
)
def test_memory_as_users_type_it(typed: str, option: str) -> None:
    memory = next(field for field in FIELDS if field.name == "memory")
    assert memory.of_text(typed) == option
    # The browser accepts what the server reads, and nothing else.
    read = option != typed or (re.fullmatch("[0-9]+[MGT]", typed) and typed[0] != "0")
    assert bool(re.fullmatch(memory.pattern, typed)) == bool(read)
    if read:
        assert str(Resources(memory=option).memory) == option
