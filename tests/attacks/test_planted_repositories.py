"""Repositories that others have put where git looks: it executes what their configuration names."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from neighbour import as_neighbour, needs_root, shared_folder
from portal_session.course.merging import Repository, use_settings
from portal_session.runs.git_state import git_state

from portal.courses.files.git import Git


def git(folder: Path, *arguments: str) -> str:
    """Execute git, which must succeed."""
    names = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *names, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """File that a planted program writes; the user trusts all repositories, as many do."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    yield tmp_path / "trace"
    assert not (tmp_path / "trace").exists(), "a planted program was executed"


def repository(folder: Path) -> Path:
    """Make a repository with one file, whose time has changed since."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text("print(1)\n")
    git(folder, "init", "-q")
    git(folder, "add", "train.py")
    git(folder, "commit", "-q", "-m", "first")
    os.utime(folder / "train.py", (time.time() - 99, time.time() - 99))
    return folder


def program(path: Path, trace: Path) -> Path:
    """Write a program that leaves a trace."""
    path.write_text(f"#!/bin/sh\necho >{trace}\ncat\n")
    path.chmod(0o755)
    return path


def test_a_folder_that_is_a_bare_repository(tmp_path: Path, trace: Path) -> None:
    made = repository(tmp_path / "made")
    evil = program(tmp_path / "evil", trace)
    shared = tmp_path / "shared"
    (made / ".git").rename(shared)
    git(shared, "config", "core.fsmonitor", str(evil))
    git(shared, "config", "core.worktree", str(shared))
    git(shared, "config", "core.bare", "false")
    (shared / "work").mkdir()
    assert git_state(shared) is None and git_state(shared / "work") is None


@needs_root
def test_a_repository_of_a_neighbour_in_a_folder_above(tmp_path: Path, trace: Path) -> None:
    with shared_folder() as shared:
        evil = program(shared / "evil", shared / "trace")
        as_neighbour(
            "cd $1; export HOME=$1; git config --global safe.directory '*';"
            "git init -q .; git config core.fsmonitor $2;"
            "git -c user.name=n -c user.email=n@n commit -q --allow-empty -m first",
            shared,
            evil,
        )
        (shared / "trace").unlink(missing_ok=True)
        (shared / "mine").mkdir()
        assert git_state(shared / "mine") is None
        os.chown(shared, 5, -1)
        assert git_state(shared / "mine") is None
        assert not (shared / "trace").exists()


@pytest.mark.parametrize("driver", ["clean", "process"])
def test_filters_and_monitors_of_the_own_repository(
    tmp_path: Path, trace: Path, driver: str
) -> None:
    """It may have come with an archive."""
    made, evil = repository(tmp_path / "made"), program(tmp_path / "evil", trace)
    (made / ".git/info/attributes").write_text("*.py filter=x.Y diff=x\n")
    for name in (f"filter.x.Y.{driver}", "diff.x.textconv", "diff.external", "core.fsmonitor"):
        git(made, "config", name, str(evil))
    git(made, "config", "filter.x.Y.required", "true")
    state = git_state(made)
    assert state == {"commit": git(made, "rev-parse", "HEAD"), "dirty": False}
    (made / "train.py").write_text("print(2)\n")
    state = git_state(made)
    assert state is not None and state["dirty"] is True


def test_a_filter_whose_name_cannot_be_switched_off(tmp_path: Path, trace: Path) -> None:
    made, evil = repository(tmp_path / "made"), program(tmp_path / "evil", trace)
    (made / ".git/info/attributes").write_text("*.py filter=a=b\n")
    git(made, "config", "filter.a=b.clean", str(evil))
    state = git_state(made)
    assert state is not None and state["dirty"] is None


def test_the_other_side_of_a_repository_that_lacks_objects(tmp_path: Path, trace: Path) -> None:
    made, evil = repository(tmp_path / "made"), program(tmp_path / "evil", trace)
    tree = git(made, "rev-parse", "HEAD^{tree}")
    (made / ".git/objects" / tree[:2] / tree[2:]).unlink()
    git(made, "config", "core.repositoryFormatVersion", "1")
    git(made, "config", "extensions.partialClone", "origin")
    for name, value in (("promisor", "true"), ("url", str(tmp_path)), ("uploadpack", str(evil))):
        git(made, "config", f"remote.origin.{name}", value)
    assert git_state(made) == {"commit": git(made, "rev-parse", "HEAD"), "dirty": None}


def test_of_a_submodule(tmp_path: Path, trace: Path) -> None:
    made, inner = repository(tmp_path / "made"), repository(tmp_path / "inner")
    evil = program(tmp_path / "evil", trace)
    git(made, "-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner), "sub")
    git(made, "commit", "-q", "-m", "second")
    for name in ("core.fsmonitor", "filter.x.clean"):
        git(made / "sub", "config", name, str(evil))
    (made / ".git/modules/sub/info/attributes").write_text("*.py filter=x\n")
    os.utime(made / "sub/train.py", (1, 1))
    state = git_state(made)
    assert state is not None and state["dirty"] is False


def test_handouts(tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nbgitpuller calls git too: the settings are in the environment of its process."""
    made, evil = repository(tmp_path / "made"), program(tmp_path / "evil", trace)
    for name in ("core.fsmonitor", "core.hooksPath"):
        git(made, "config", name, str(evil if name == "core.fsmonitor" else tmp_path / "hooks"))
    (tmp_path / "hooks").mkdir()
    program(tmp_path / "hooks/post-index-change", trace)
    bare = tmp_path / "bare"
    git(tmp_path, "init", "-q", "--bare", "bare")
    for name in [*os.environ]:
        monkeypatch.setenv(name, os.environ[name])  # what is set below ends with the test
    for name in ("GIT_CONFIG_COUNT", "GIT_NO_LAZY_FETCH", "GIT_CONFIG_NOSYSTEM", "GIT_EDITOR",
                 "GIT_ALLOW_PROTOCOL", "GIT_TERMINAL_PROMPT", "XDG_CONFIG_HOME", "LC_ALL",
                 *(f"GIT_CONFIG_{part}_{at}" for part in ("KEY", "VALUE") for at in range(3)),
                 ):  # fmt: skip
        monkeypatch.setenv(name, "")
    (tmp_path / "settings").mkdir()
    use_settings(tmp_path / "settings")
    Repository(made).git("status", "--porcelain")
    Repository(made).git("reset", "-q", "--mixed")
    assert not Repository(bare).has("rev-parse", "--git-dir")


async def test_of_the_service(tmp_path: Path) -> None:
    """A course's repository is named, and no other is looked for."""
    made = Git(tmp_path / "a/b/handouts", 10)
    await made.make()
    assert await made.text("config", "safe.bareRepository") == "explicit"
