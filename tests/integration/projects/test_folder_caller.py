"""The service's calls of the program for folders: its answers, refusals and limits."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from pathlib import Path

import pytest

from portal.errors import (
    ConfigurationError,
    Conflict,
    InvalidRequest,
    PortalError,
    Unavailable,
)
from portal.projects.folder import folders
from portal.projects.folder.folders import FolderRole, ProjectFolders

OWNER = {"ada": FolderRole.OWNER}
ANSWER = '{"project": "p", "action": "make", "quota": "on", "changed": ["a"], "changed_count": 1}'


@pytest.fixture
def members(tmp_path: Path) -> Path:
    """The folder for files of members."""
    place = tmp_path / "members"
    place.mkdir()
    return place


def caller_of(tmp_path: Path, **settings: object) -> ProjectFolders:
    file = tmp_path / "project-folders.json"
    here = {"root": "/projects", "members": str(tmp_path / "members"), "minimum_uid": 1000}
    file.write_text(json.dumps(here | settings))
    return ProjectFolders(logging.getLogger(), file, sudo=())


def calling(tmp_path: Path, script: str) -> ProjectFolders:
    """Return a caller of this shell script, without sudo."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return caller_of(tmp_path, program=str(program))


async def test_members_are_written_before_the_call(tmp_path: Path, members: Path) -> None:
    caller = calling(
        tmp_path, f'cat {members}/p.json > {tmp_path}/seen; echo "$@"; env >&2; exit 3'
    )
    os.environ["PORTAL_SECRET"] = "s3cret"
    try:
        with pytest.raises(Conflict) as refused:
            await caller.make("p", {"ada": FolderRole.OWNER, "grace": FolderRole.READER})
    finally:
        del os.environ["PORTAL_SECRET"]
    assert "s3cret" not in refused.value.message and "LC_ALL" in refused.value.message
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen == {"project": "p", "members": {"ada": "owner", "grace": "reader"}}
    file = members / "p.json"
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0
    assert [path.name for path in members.iterdir()] == ["p.json"]


async def test_the_answer(tmp_path: Path, members: Path) -> None:
    caller = calling(tmp_path, f"echo '{ANSWER}'")
    answer = await caller.make("p", OWNER)
    assert (answer.changed, answer.changed_count, answer.quota) == (("a",), 1, "on")
    assert caller.folder_of("p") == Path("/projects/p")


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo 'Nothing is listed.' >&2; exit 3", Conflict, "project 'p': Nothing is listed."),
        ("echo 'sudo: a password is required' >&2; exit 1", ConfigurationError, "sudo says"),
        ("echo 'Sorry, user portal may not' >&2; exit 1", ConfigurationError, "sudo says"),
        ("exit 2", ConfigurationError, "status 2"),
        ("echo '{'", ConfigurationError, "no answer of this version"),
        ('echo \'{"project": "p"}\'', ConfigurationError, "no answer of this version"),
        ("kill -9 $$", ConfigurationError, "status -9"),
    ],
)
async def test_refusals_are_sentences(
    tmp_path: Path, members: Path, script: str, kind: type[PortalError], words: str
) -> None:
    for call in ("repair", "archive", "restore", "list_repair"):
        with pytest.raises(kind, match=words) as refused:
            await getattr(calling(tmp_path, script), call)("p")
        assert type(refused.value) is kind


async def test_a_call_that_takes_too_long(
    tmp_path: Path, members: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_WHOLE", 0.2)
    async with asyncio.timeout(20):
        with pytest.raises(Unavailable, match="still being worked on"):
            await calling(tmp_path, "exec sleep 60").archive("p")


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a--b", "-a", "a" * 21, "a\n", "a b"])
async def test_no_call_for_other_names(tmp_path: Path, members: Path, name: str) -> None:
    caller = calling(tmp_path, f"touch {tmp_path}/called; echo '{ANSWER}'")
    with pytest.raises(InvalidRequest):
        await caller.archive(name)
    with pytest.raises(InvalidRequest):
        await caller.make(name, OWNER)
    with pytest.raises(InvalidRequest):
        caller.folder_of(name)
    assert not (tmp_path / "called").exists() and not list(members.iterdir())


async def test_wrong_members_and_places(tmp_path: Path, members: Path) -> None:
    caller = calling(tmp_path, f"echo '{ANSWER}'")
    for wrong in ({"": FolderRole.OWNER}, {"a:b": FolderRole.OWNER}, {"a\n": FolderRole.OWNER}):
        with pytest.raises(InvalidRequest, match="members"):
            await caller.make("p", wrong)
    members.rmdir()
    with pytest.raises(ConfigurationError, match="cannot write"):
        await caller.make("p", OWNER)
    with pytest.raises(ConfigurationError, match="cannot be started"):
        await caller_of(tmp_path, program=str(tmp_path / "missing")).archive("p")
    for text, words in (("{", "JSON"), ("{}", "program, root, members"), ("[]", "JSON")):
        caller.file.write_text(text)
        with pytest.raises(ConfigurationError, match=f"is wrong: {words}"):
            await caller.archive("p")
    caller.file.unlink()
    with pytest.raises(ConfigurationError, match="has no folders"):
        await caller.archive("p")
