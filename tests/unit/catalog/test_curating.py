"""Curating the catalog: real files, a real database, two admins at once."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from portal.catalog import EnvironmentCatalog
from portal.catalog.definitions import writing
from portal.catalog.definitions.writing import CatalogNotWritable
from portal.catalog.definitions.yaml_text import definition_of, yaml_text
from portal.catalog.versions.curating import Curator
from portal.catalog.versions.publishing import EditConflict
from portal.errors import Conflict, InvalidRequest, NotFound, Unavailable
from portal.models.audit import AuditEntry
from portal.models.catalog.catalog import Origin, Verdict
from portal.models.catalog.environment import Audience, Environment, EnvironmentState
from portal.models.person import Person
from portal.store import Store

VENV: dict[str, Any] = {"name": "one", "title": "One", "kind": "venv", "path": "/opt/one"}
GRACE = Person(name="grace", admin=True)
ADA = Person(name="ada", groups=("lab",))


class Place:
    """A catalog on disk, a database, and the curator of both."""

    def __init__(self, directory: Path, store: Store) -> None:
        self.files, self.store = directory / "files", store
        self.files.mkdir(exist_ok=True)
        self.catalog = EnvironmentCatalog(
            store=store, directory=str(self.files), kept_directory=str(directory / "kept")
        )
        self.notes: list[AuditEntry] = []
        self.curator = self.new_curator()

    def new_curator(self) -> Curator:
        """As after a restart of the service."""
        return Curator(self.catalog, self.store, self.note)

    async def note(self, entry: AuditEntry) -> None:
        self.notes.append(entry)

    def write(self, file: str = "one.yaml", **values: Any) -> str:
        text = yaml_text(Environment.model_validate(VENV | values))
        (self.files / file).write_text(text)
        return text

    def text(self, file: str = "one.yaml") -> str:
        return (self.files / file).read_text()

    async def history(self, name: str = "one") -> list[tuple[int, str, str, str]]:
        found, _ = await self.store.versions.of_environment(name)
        return [(v.number, v.state.value, v.origin.value, v.comment) for v in found]

    def names(self, person: Person) -> list[str]:
        return [found.name for found in self.catalog.visible_to(person)]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite")
    await store.upgrade()
    yield Place(tmp_path, store)
    await store.close()


def container(tmp_path: Path, **values: Any) -> dict[str, Any]:
    image = tmp_path / "x.sif"
    image.write_bytes(b"image")
    return {"name": "c", "title": "C", "kind": "container", "image": str(image), **values}


async def test_from_a_draft_to_people(place: Place) -> None:
    made = await place.curator.create(VENV, "grace", "first")
    assert (made.number, made.state, made.author) == (1, EnvironmentState.DRAFT, "grace")
    await place.catalog.load()
    assert not place.names(ADA)
    done = await place.curator.publish("one", 1, "grace", Audience(groups=("lab",)))
    assert place.names(ADA) == ["one"]
    assert place.names(Person(name="eve")) == []
    assert "groups: [lab]" in place.text()
    assert done.published_at
    assert (place.files / "one.yaml").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in place.files.iterdir()] == ["one.yaml"]
    # The service's own writing is no change by hand.
    assert (await place.curator.sync())["one"].number == 1
    assert len(await place.history()) == 1


async def test_the_second_of_two_admins_gets_both_texts(place: Place) -> None:
    await place.curator.create(VENV, "grace")
    await place.curator.save("one", VENV | {"title": "Hers"}, 1, "grace")
    with pytest.raises(EditConflict, match="grace in the meantime") as caught:
        await place.curator.save("one", VENV | {"title": "His"}, 1, "barbara")
    assert "title: Hers" in caught.value.details["current"]
    assert "title: His" in caught.value.details["yours"]
    assert caught.value.details["number"] == 2
    assert len(await place.history()) == 2
    await place.curator.save("one", VENV | {"title": "Both"}, 2, "barbara")


async def test_two_at_the_very_same_moment(place: Place) -> None:
    await place.curator.create(VENV, "grace")
    saved = await asyncio.gather(
        *(place.curator.save("one", VENV | {"title": f"T{n}"}, 1, f"a{n}") for n in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, EditConflict) for one in saved) == 7
    made = await asyncio.gather(
        *(place.curator.create(VENV | {"name": "new"}, f"a{n}") for n in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, EditConflict) for one in made) == 3


async def test_nothing_new_makes_no_version(place: Place) -> None:
    await place.curator.create(VENV, "grace")
    again = await place.curator.save("one", VENV | {"tags": []}, 1, "grace")
    assert again.number == 1


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"binds": [{"source": "/etc/shadow"}]}, "binds.0.source"),
        ({"binds": [{"source": "/data/../etc"}]}, "binds.0.source"),
        ({"variables": {"BASH_ENV": "x"}}, "variables.BASH_ENV"),
        ({"state": "draft"}, "state"),
        ({"private": True, "owner": "ada"}, "private"),
        ({"name": "one.preview"}, "name"),
        ({"titel": "x"}, "titel"),
        ({"description": "x" * 20_001}, "description"),
        ({"description": "\U0001f600" * 20_000}, None),
    ],
)
async def test_what_a_site_does_not_allow_is_not_saved(
    place: Place, values: dict[str, Any], field: str | None
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await place.curator.create(VENV | values, "grace")
    assert caught.value.field == field
    assert not await place.store.versions.newest()


async def test_a_name_is_kept(place: Place) -> None:
    await place.curator.create(VENV, "grace")
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        await place.curator.save("one", VENV | {"name": "two"}, 1, "grace")
    with pytest.raises(NotFound):
        await place.curator.save("two", VENV | {"name": "two"}, 1, "grace")


# -- only what is known to work ------------------------------------------------------------------


async def test_a_container_is_published_only_when_it_is_ready(place: Place, tmp_path: Path) -> None:
    definition = container(tmp_path)
    await place.curator.create(definition, "grace")
    for state, words in (
        ("draft", "must be tested"), ("building", "is being built"), ("testing", "is being tested"),
        ("failed", "No module named x"),
    ):  # fmt: skip
        await place.store.versions.change("c", 1, state=state, message="No module named x")
        for act in (
            place.curator.publish("c", 1, "grace"),
            place.curator.preview("c", 1),
            place.curator.rollback("c", 1, "grace"),
        ):
            with pytest.raises(Conflict, match=words):
                await act
    assert not list(place.files.iterdir())
    await place.store.versions.change("c", 1, state=EnvironmentState.READY)
    await place.curator.publish("c", 1, "grace")
    assert list(place.catalog.environments) == ["c"]


async def test_a_new_title_needs_no_new_test_and_a_new_source_does(
    place: Place, tmp_path: Path
) -> None:
    definition = container(tmp_path, source="docker://a.org/x:1", digest="sha256:" + "0" * 64)
    first = await place.curator.create(definition, "grace")
    verdict = Verdict(
        fingerprint=first.environment.fingerprint, gpu_type="", passed=True, message="", at=1
    )
    await place.store.tests.save_verdict(verdict)
    titled = await place.curator.save("c", definition | {"title": "New"}, 1, "grace")
    assert titled.state is EnvironmentState.READY
    other = await place.curator.save("c", definition | {"source": "docker://a.org/x:2"}, 2, "grace")
    assert other.state is EnvironmentState.DRAFT
    assert (other.environment.image, other.environment.digest) == (None, None)
    with pytest.raises(Conflict, match="must be built"):
        await place.curator.publish("c", 3, "grace")


async def test_a_preview_is_for_admins_and_goes_when_it_is_published(place: Place) -> None:
    await place.curator.create(VENV | {"groups": ["lab"]}, "grace")
    preview = await place.curator.preview("one", 1)
    assert place.names(GRACE) == [preview.name]
    assert preview.name == "one.preview"
    assert place.names(ADA) == []
    await place.curator.publish("one", 1, "grace")
    assert place.names(GRACE) == ["one"]
    long = "a" * 63
    await place.curator.create(VENV | {"name": long, "title": "T" * 120}, "grace")
    assert (await place.curator.preview(long, 1)).name in place.names(GRACE)


# -- back, and out -------------------------------------------------------------------------------


async def test_roll_back_is_a_new_version(place: Place) -> None:
    await place.curator.create(VENV, "grace")
    await place.curator.publish("one", 1, "grace")
    await place.curator.save("one", VENV | {"title": "Worse"}, 1, "grace")
    await place.curator.publish("one", 2, "grace")
    back = await place.curator.rollback("one", 1, "barbara")
    assert (back.number, back.author, back.comment) == (3, "barbara", "Rolled back to version 1.")
    assert place.catalog.environments["one"].title == "One"
    with pytest.raises(Conflict, match="is already published"):
        await place.curator.rollback("one", 3, "grace")
    with pytest.raises(NotFound):
        await place.curator.rollback("one", 9, "grace")
    # A draft from before does not quietly undo it.
    with pytest.raises(EditConflict):
        await place.curator.publish("one", 2, "grace")


async def test_no_way_back_to_an_image_that_is_gone(place: Place, tmp_path: Path) -> None:
    await place.curator.create(container(tmp_path), "grace")
    await place.store.versions.change("c", 1, state=EnvironmentState.READY)
    await place.curator.publish("c", 1, "grace")
    await place.curator.turn("c", EnvironmentState.WITHDRAWN, "old", "grace")
    (tmp_path / "x.sif").unlink()
    for act in (
        place.curator.rollback("c", 1, "grace"),
        place.curator.turn("c", EnvironmentState.READY, "", "grace"),
    ):
        with pytest.raises(Conflict, match=r"x\.sif no longer exists\. Build it again"):
            await act


async def test_deprecate_withdraw_and_offer_again(place: Place) -> None:
    with pytest.raises(NotFound):
        await place.curator.turn("one", EnvironmentState.WITHDRAWN, "x", "grace")
    await place.curator.create(VENV, "grace")
    await place.curator.publish("one", 1, "grace")
    await place.curator.turn("one", EnvironmentState.DEPRECATED, "Use two.", "grace")
    [seen] = place.catalog.visible_to(ADA)
    assert (seen.state, seen.message) == (EnvironmentState.DEPRECATED, "Use two.")
    await place.curator.turn("one", EnvironmentState.WITHDRAWN, "Broken.", "grace")
    assert not place.catalog.visible_to(ADA)
    assert not place.catalog.visible_to(GRACE)
    with pytest.raises(Conflict, match="already withdrawn"):
        await place.curator.turn("one", EnvironmentState.WITHDRAWN, "Broken.", "grace")
    await place.curator.turn("one", EnvironmentState.READY, "", "barbara")
    assert place.names(ADA) == ["one"]
    assert [(n, s) for n, s, *_ in await place.history()] == [
        (4, "ready"), (3, "withdrawn"), (2, "deprecated"), (1, "ready"),
    ]  # fmt: skip


async def test_for_other_people_the_same_version_is_a_new_one(place: Place) -> None:
    await place.curator.create(VENV, "grace")
    await place.curator.publish("one", 1, "grace", Audience(groups=("lab",)))
    assert (await place.curator.publish("one", 1, "grace")).number == 1
    wider = await place.curator.publish(
        "one", 1, "barbara", Audience(groups=(), courses=("dl101",))
    )
    assert (wider.number, wider.base, wider.environment.courses) == (2, 1, ("dl101",))
    assert (await place.store.versions.get("one", 1)).environment.groups == ("lab",)


# -- files that are changed by hand --------------------------------------------------------------


async def test_a_file_by_hand_becomes_a_version_with_its_owner_as_author(place: Place) -> None:
    place.write(title="By hand")
    await place.curator.sync()
    await place.curator.sync()
    [version], _ = await place.store.versions.of_environment("one")
    assert (version.origin, version.environment.title) == (Origin.FILE, "By hand")
    assert version.author == (place.files / "one.yaml").owner()
    assert version.published_at
    assert [note.action for note in place.notes] == ["change-environment-file"]


COMMENTED = """\
# Ask ada before you change this.
title: "One"   # short
name: one
kind: venv
# On all nodes.
path: /opt/one
groups:
  - lab  # all
  # for a semester
  - guests
"""


async def test_publishing_keeps_the_comments_and_the_order_of_a_file(place: Place) -> None:
    (place.files / "own name.yml").write_text(COMMENTED)
    base = (await place.curator.sync())["one"]
    values = VENV | {"title": "Two", "groups": ["lab", "new", "guests"]}
    draft = await place.curator.save("one", values, base.number, "grace")
    await place.curator.publish("one", draft.number, "grace")
    published = COMMENTED.replace('"One"', "Two").replace("all\n", "all\n  - new\n")
    assert place.text("own name.yml") == published
    # The service's own writing is no change by hand.
    assert (await place.curator.sync())["one"].number == draft.number
    await place.curator.turn("one", EnvironmentState.WITHDRAWN, "Old.", "grace")
    assert place.text("own name.yml") == published + "state: withdrawn\nmessage: Old.\n"
    await place.curator.rollback("one", base.number, "grace")
    assert place.text("own name.yml") == COMMENTED.replace('"One"', "One")


async def test_a_file_that_would_become_too_large_is_written_without_comments(
    place: Place,
) -> None:
    place.catalog.max_size = 400
    (place.files / "one.yaml").write_text(f"{COMMENTED}# {'x' * 150}\n")
    base = (await place.curator.sync())["one"]
    draft = await place.curator.save("one", VENV | {"description": "y" * 150}, base.number, "g")
    await place.curator.publish("one", draft.number, "grace")
    assert "#" not in place.text() and not place.catalog.errors


async def test_a_draft_that_is_older_than_the_file_is_a_conflict(place: Place) -> None:
    place.write()
    base = (await place.curator.sync())["one"]
    draft = await place.curator.save("one", VENV | {"title": "Page"}, base.number, "grace")
    place.write(title="By hand")
    with pytest.raises(EditConflict) as caught:
        await place.curator.publish("one", draft.number, "grace")
    assert "title: By hand" in caught.value.details["current"]
    assert "title: Page" in caught.value.details["yours"]
    assert "By hand" in place.text()
    merged = await place.curator.save(
        "one", VENV | {"title": "Both"}, caught.value.details["number"], "grace"
    )
    await place.curator.publish("one", merged.number, "grace")
    assert "title: Both" in place.text()


async def test_a_page_opened_before_a_change_by_hand_is_a_conflict(place: Place) -> None:
    place.write()
    await place.curator.sync()
    place.write(title="By hand")
    with pytest.raises(EditConflict, match="version 1, the newest is 2"):
        await place.curator.save("one", VENV | {"title": "Page"}, 1, "grace")


async def test_a_file_put_back_is_the_version_that_it_was(place: Place) -> None:
    text = place.write()
    await place.curator.sync()
    place.write(title="Other")
    await place.curator.sync()
    (place.files / "one.yaml").write_text(text)
    assert (await place.curator.sync())["one"].number == 1
    assert len(await place.history()) == 2


async def test_a_file_that_was_removed_is_withdrawn_and_a_wrong_one_is_not(place: Place) -> None:
    text = place.write()
    await place.curator.sync()
    (place.files / "one.yaml").write_text("name: [")
    assert (await place.curator.sync())["one"].number == 1
    # Nor after a restart, which knows no more which file it was.
    assert (await place.new_curator().sync())["one"].number == 1
    (place.files / "one.yaml").unlink()
    gone = (await place.curator.sync())["one"]
    assert (gone.number, gone.state, gone.origin) == (2, EnvironmentState.WITHDRAWN, Origin.FILE)
    assert (await place.curator.sync())["one"].number == 2
    (place.files / "one.yaml").write_text(text)
    assert (await place.curator.sync())["one"].number == 1


async def test_a_file_under_another_name_is_written_where_it_is(place: Place) -> None:
    place.write("10-first.yaml")
    base = (await place.curator.sync())["one"]
    draft = await place.curator.save("one", VENV | {"title": "New"}, base.number, "grace")
    await place.curator.publish("one", draft.number, "grace")
    assert [path.name for path in place.files.iterdir()] == ["10-first.yaml"]
    assert "title: New" in place.text("10-first.yaml")


@pytest.mark.parametrize("text", ["name: [", "name: two\ntitle: T\nkind: venv\npath: /x\n"])
async def test_no_file_of_somebody_else_is_overwritten(place: Place, text: str) -> None:
    (place.files / "one.yaml").write_text(text)
    await place.curator.create(VENV, "grace")
    with pytest.raises(Conflict, match="already exists with other content"):
        await place.curator.publish("one", 1, "grace")
    assert place.text() == text


async def test_a_change_by_hand_at_the_last_moment_is_not_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write()
    base = (await place.curator.sync())["one"]
    draft = await place.curator.save("one", VENV | {"title": "Page"}, base.number, "grace")

    def late(descriptor: int) -> None:
        if not Path(f"/proc/self/fd/{descriptor}").is_dir():
            place.write(title="By hand")

    monkeypatch.setattr(writing.os, "fsync", late)
    with pytest.raises(Conflict, match="was changed by hand"):
        await place.curator.publish("one", draft.number, "grace")
    assert "By hand" in place.text()
    assert [path.name for path in place.files.iterdir()] == ["one.yaml"]


# -- what goes wrong half-way --------------------------------------------------------------------


async def test_a_crash_between_file_and_database_heals(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.curator.create(VENV, "grace")
    change, calls = place.store.versions.change, []

    async def dies(name: str, number: int, **values: Any) -> Any:
        calls.append(values)
        if "published_at" in values:
            raise KeyboardInterrupt
        return await change(name, number, **values)

    monkeypatch.setattr(place.store.versions, "change", dies)
    with pytest.raises(KeyboardInterrupt):
        await place.curator.publish("one", 1, "grace")
    monkeypatch.undo()
    assert "title: One" in place.text()
    assert (await place.new_curator().sync())["one"].number == 1
    assert len(await place.history()) == 1


@pytest.mark.parametrize(
    ("number", "error", "words"),
    [
        (errno.EACCES, CatalogNotWritable, "is managed by hand"),
        (errno.EROFS, CatalogNotWritable, "is managed by hand"),
        (errno.ENOSPC, Unavailable, "no space left"),
        (errno.EDQUOT, Unavailable, "no space left"),
        (errno.EIO, Unavailable, "could not be written"),
    ],
)
async def test_nothing_half_made_is_left_where_the_folder_cannot_be_written(
    place: Place, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], words: str
) -> None:
    await place.curator.create(VENV, "grace")
    await place.curator.publish("one", 1, "grace")
    draft = await place.curator.save("one", VENV | {"title": "New"}, 1, "grace")

    def full(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(writing.os, "fsync", full)
    before = await place.store.versions.of_environment("one")
    with pytest.raises(error, match=words):
        await place.curator.publish("one", draft.number, "grace", Audience(groups=("lab",)))
    with pytest.raises(error, match=words):
        await place.curator.turn("one", EnvironmentState.WITHDRAWN, "x", "grace")
    assert await place.store.versions.of_environment("one") == before
    assert [path.name for path in place.files.iterdir()] == ["one.yaml"]
    assert "title: One" in place.text()
    monkeypatch.undo()
    await place.curator.publish("one", draft.number, "grace")


async def test_a_folder_that_is_not_there(place: Place) -> None:
    await place.curator.create(VENV, "grace")
    place.files.rmdir()
    with pytest.raises(Unavailable, match="does not exist"):
        await place.curator.publish("one", 1, "grace")


async def test_a_folder_that_vanishes_withdraws_nothing(place: Place) -> None:
    place.write()
    await place.curator.sync()
    place.files.rename(place.files.with_name("away"))
    assert (await place.curator.sync())["one"].number == 1
    assert len(await place.history()) == 1


def test_a_definition_is_what_its_text_says() -> None:
    environment = Environment.model_validate(VENV | {"default": {"gpus": 0}})
    assert definition_of(environment) == VENV | {"default": {"gpus": 0}}
