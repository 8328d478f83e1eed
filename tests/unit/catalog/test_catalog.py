"""The environment catalog, on real files."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import pytest
from traitlets.config import Config

from portal.catalog import EnvironmentCatalog
from portal.catalog.definitions.document import DocumentError, read_document
from portal.errors import NotFound
from portal.models.person import Person

GOOD = """\
name: {name}
title: {title}
kind: venv
path: /opt/{name}
"""

ada = Person(name="ada", groups=("gpu-users",))
grace = Person(name="grace", admin=True)
stranger = Person(name="stranger")


def write(directory: Path, file: str, text: str) -> None:
    (directory / file).write_text(text)


def put(directory: Path, name: str, extra: str = "", file: str | None = None) -> None:
    write(directory, file or f"{name}.yaml", GOOD.format(name=name, title=name.title()) + extra)


def catalog_of(directory: Path, **settings: object) -> EnvironmentCatalog:
    return EnvironmentCatalog(directory=str(directory), **settings)


async def loaded(directory: Path, **settings: object) -> EnvironmentCatalog:
    catalog = catalog_of(directory, **settings)
    await catalog.load()
    return catalog


def errors(catalog: EnvironmentCatalog) -> list[str]:
    return [str(error) for error in catalog.errors]


async def test_loads_yaml_and_yml_and_nothing_else(tmp_path: Path) -> None:
    put(tmp_path, "one")
    put(tmp_path, "two", file="two.yml")
    put(tmp_path, "hidden", file=".hidden.yaml")
    put(tmp_path, "backup", file="one.yaml~")
    write(tmp_path, "README.md", "not an environment")
    catalog = await loaded(tmp_path)
    assert list(catalog.environments) == ["one", "two"]
    assert catalog.errors == ()


async def test_order_is_order_then_title(tmp_path: Path) -> None:
    put(tmp_path, "zebra", "order: 1\n")
    put(tmp_path, "beta")
    put(tmp_path, "alpha")
    catalog = await loaded(tmp_path)
    assert [found.name for found in catalog.visible_to(ada)] == ["zebra", "alpha", "beta"]


async def test_directory_is_a_setting(tmp_path: Path) -> None:
    put(tmp_path, "one")
    config = Config()
    config.EnvironmentCatalog.directory = str(tmp_path)
    catalog = EnvironmentCatalog(config=config)
    await catalog.load()
    assert list(catalog.environments) == ["one"]


async def test_times_and_words_stay_text(tmp_path: Path) -> None:
    """YAML 1.1 would read 2:00:00 as 7200 and the tag `no` as false."""
    put(
        tmp_path,
        "one",
        "tags: [no, on, 2025-10-01]\ndefault:\n  gpus: 2\n  time: 2:00:00\nidle_time: 8:00:00\n",
    )
    found = (await loaded(tmp_path)).environments["one"]
    assert found.default.time == 7200
    assert (found.idle_time, str(found.idle_time)) == (28800, "8:00:00")
    assert str(found.default.time) == "2:00:00"
    assert found.default.gpus == 2
    assert found.tags == ("no", "on", "2025-10-01")


WRONG = {
    "unknown key": (GOOD + "descripton: x\n", 5, "'descripton' is not a known key; did you mean"),
    "missing key": ("name: bad\nkind: venv\npath: /x\n", 1, "'title' is missing"),
    "nested value": (GOOD + "default:\n  gpus: 1\n  memory: 4 gigs\n", 7, "'default.memory'"),
    "nested unknown": (
        GOOD + "default:\n  gpus: 1\n  ram: 4G\n",
        7,
        "'default.ram' is not a known",
    ),
    "in a list": (GOOD + "binds:\n  - source: /data\n  - source: ../etc\n", 7, "'binds.1.source'"),
    "number for text": (GOOD + "tags:\n  - cuda\n  - 25.10\n", 7, "put it in quotes"),
    "idle time": (GOOD + "idle_time: never\n", 5, "'idle_time'"),
    "short idle time": (GOOD + "idle_time: 0:00:30\n", 5, "must be at least one minute"),
    "reserved": (GOOD + "variables:\n  LD_PRELOAD: /x.so\n", 5, "LD_PRELOAD is set by the portal"),
    "kind": ("name: bad\ntitle: x\nkind: docker\n", 3, "'kind'"),
    "no source": ("name: bad\ntitle: x\nkind: container\n", 1, "needs 'image'"),
    "bad name": ("title: x\nname: Bad Name\nkind: venv\npath: /x\n", 2, "'name'"),
    "two of one key": (GOOD + "title: again\n", 5, "is duplicated"),
    "not yaml": (GOOD + "tags: [a, b\nicon: x\n", 6, "not YAML"),
    "tabs": (GOOD + "default:\n\tgpus: 1\n", 6, "not YAML"),
    "a list": ("- name: bad\n", 1, "'key: value'"),
    "empty": ("", 1, "empty"),
    "two documents": (GOOD + "---\nname: other\n", 5, "not YAML"),
    "alias": (GOOD + "tags: &a [x]\n", 5, "anchors"),
    "class": (GOOD + "description: !!python/object/apply:os.getcwd []\n", 5, "tags"),
    "key that is a number": (GOOD + "variables:\n  1: x\n", 6, "must be text"),
    "no character": (GOOD + 'description: "\\UFFFFFFFF"\n', 5, "invalid character escape"),
    "half a character": (GOOD + 'description: "\\uD800"\n', 5, "invalid character escape"),
    "deep": (GOOD + "tags: " + "[" * 5000 + "\n", 5, "nested deeper"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_file_is_named_with_line_and_reason_and_others_load(
    tmp_path: Path, case: str
) -> None:
    text, line, reason = WRONG[case]
    write(tmp_path, "bad.yaml", text.replace("{name}", "bad").replace("{title}", "Bad"))
    put(tmp_path, "good")
    catalog = await loaded(tmp_path)
    assert list(catalog.environments) == ["good"]
    [error] = catalog.errors
    assert (error.file, error.line) == ("bad.yaml", line)
    assert reason in error.message


async def test_every_wrong_key_of_a_file_is_told(tmp_path: Path) -> None:
    put(tmp_path, "bad", "colour: red\norder: first\n")
    catalog = await loaded(tmp_path)
    assert {error.line for error in catalog.errors} == {5, 6}


def test_aliases_cannot_unfold_into_a_large_value() -> None:
    bomb = "a: &a [x]\n" + "".join(
        f"{new}: &{new} [*{old},*{old},*{old}]\n" for old, new in itertools.pairwise("abcdefghi")
    )
    with pytest.raises(DocumentError):
        read_document(bomb.encode())


async def test_file_that_is_no_text_or_no_file_or_too_large(tmp_path: Path) -> None:
    put(tmp_path, "good")
    (tmp_path / "latin.yaml").write_bytes(b"name: x\ntitle: caf\xe9\n")
    (tmp_path / "control.yaml").write_bytes(b"name: x\ntitle: \x07\n")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "large.yaml").write_text("# " + "x" * 1000)
    catalog = await asyncio.wait_for(loaded(tmp_path, max_size=500), 20)
    assert list(catalog.environments) == ["good"]
    found = {error.file: error for error in catalog.errors}
    assert "UTF-8" in found["latin.yaml"].message
    assert found["latin.yaml"].line == 2
    assert found["control.yaml"].line == 2
    assert "regular file" in found["pipe.yaml"].message
    assert found["folder.yaml"].line is None
    assert "No such file" in found["gone.yaml"].message
    assert "larger than 500 bytes" in found["large.yaml"].message


async def test_second_file_of_a_name_is_the_error(tmp_path: Path) -> None:
    put(tmp_path, "twin", "description: the first\n", file="a.yaml")
    write(tmp_path, "b.yaml", "# a remark\n" + GOOD.format(name="twin", title="Second"))
    catalog = await loaded(tmp_path)
    assert catalog.environments["twin"].description == "the first"
    assert errors(catalog) == ["b.yaml:2: the name 'twin' is already taken by a.yaml"]


async def test_changes_are_seen_and_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    put(tmp_path, "one")
    put(tmp_path, "two")
    catalog = await loaded(tmp_path)
    before = dict(catalog.environments)
    put(tmp_path, "two", "description: new\n")
    put(tmp_path, "three")
    await catalog.load()
    assert catalog.environments["one"] is before["one"]
    assert catalog.environments["two"].description == "new"
    assert "three" in catalog.environments
    (tmp_path / "one.yaml").unlink()
    await catalog.load()
    assert "one" not in catalog.environments


async def test_mended_file_loses_its_error(tmp_path: Path) -> None:
    put(tmp_path, "one", "colour: red\n")
    catalog = await loaded(tmp_path)
    assert catalog.errors
    put(tmp_path, "one")
    await catalog.load()
    assert catalog.errors == ()
    assert "one" in catalog.environments


async def test_last_good_state_stays_while_the_directory_is_gone(tmp_path: Path) -> None:
    directory = tmp_path / "environments"
    directory.mkdir()
    put(directory, "one")
    catalog = await loaded(directory)
    directory.rename(tmp_path / "away")
    await catalog.load()
    await catalog.load()
    assert "one" in catalog.environments
    assert errors(catalog) == [f"{directory}: cannot read the directory: No such file or directory"]
    (tmp_path / "away").rename(directory)
    await catalog.load()
    assert catalog.errors == ()


async def test_directory_that_was_never_there(tmp_path: Path) -> None:
    catalog = await loaded(tmp_path / "none")
    assert catalog.environments == {}
    assert len(catalog.errors) == 1


async def test_many_callers_share_one_look(tmp_path: Path) -> None:
    put(tmp_path, "one")
    looks = 0

    class Counting(EnvironmentCatalog):
        def load_now(self) -> None:
            nonlocal looks
            looks += 1
            super().load_now()

    catalog = Counting(directory=str(tmp_path))
    await asyncio.gather(*(catalog.load() for _ in range(50)))
    assert looks == 1
    assert "one" in catalog.environments


async def test_groups_decide_who_sees_what(tmp_path: Path) -> None:
    put(tmp_path, "open")
    put(tmp_path, "gpu", "groups: [gpu-users, course-dl101]\n")
    catalog = await loaded(tmp_path)

    def names(person: Person) -> list[str]:
        return [found.name for found in catalog.visible_to(person)]

    assert names(ada) == ["gpu", "open"]
    assert names(grace) == ["gpu", "open"]
    assert names(stranger) == ["open"]
    assert catalog.get("gpu", ada).name == "gpu"


async def test_get_does_not_tell_whether_it_exists(tmp_path: Path) -> None:
    put(tmp_path, "secret", "groups: [gpu-users]\n")
    catalog = await loaded(tmp_path)
    with pytest.raises(NotFound) as hidden:
        catalog.get("secret", stranger)
    with pytest.raises(NotFound) as absent:
        catalog.get("absent", stranger)
    assert hidden.value.message.replace("secret", "absent") == absent.value.message
