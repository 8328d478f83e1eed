"""``portal environments``: a catalog in git, as its own command, and the how-to's own words."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from portal_command import said_by

from portal.catalog.cli.environments import EnvironmentsApp

ONE = "# by hand\nname: one\ntitle: One\nkind: venv\npath: /opt/one\n"
TWO = ONE.replace("one", "two").replace("One", "Two")
HOW_TO = ROOT / "docs" / "how-to" / "catalog-in-git.md"


class Site:
    """A catalog, a folder in git, and the command between them."""

    def __init__(self, place: Path) -> None:
        self.catalog, self.git = place / "site", place / "git"
        self.catalog.mkdir()
        self.config = place / "config.py"
        self.config.write_text(
            f"c = get_config()\nc.EnvironmentCatalog.directory = {str(self.catalog)!r}\n"
            "c.CatalogRules.allowed_binds = ['/site']\nc.JupyterHub.port = 1\n"
        )
        (self.catalog / "one.yaml").write_text(ONE)
        (self.catalog / "20-two.yml").write_text(TWO)

    def run(self, *words: str, status: int = 0) -> str:
        """``portal environments …``; what it says."""
        with contextlib.chdir(self.git.parent):
            return said_by(EnvironmentsApp, self.config, *words, status=status)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def exported(site: Site) -> Site:
    site.run("export", "git")
    return site


def test_export_writes_the_very_files(exported: Site) -> None:
    assert {path.name for path in exported.git.iterdir()} == {
        "one.yaml",
        "two.yaml",
        "catalog.json",
    }
    assert (exported.git / "one.yaml").read_text() == ONE
    assert exported.run("diff", "git") == ""
    assert "0 of 2 environments were written" in exported.run("import", "git")


def test_import_writes_where_the_file_is(exported: Site) -> None:
    (exported.git / "two.yaml").write_text(TWO + "order: 5\n")
    (exported.git / "new.yaml").write_text(ONE.replace("one", "new"))
    (exported.git / "one.yaml").unlink()
    tried = exported.run("import", "--dry-run", "git")
    assert "3 of 3 environments would be written" in tried
    assert (exported.catalog / "one.yaml").exists()
    said = exported.run("import", "git")
    for words in ("new is new", "one is removed", "two is changed", "3 of 3 environments were"):
        assert words in said
    assert {path.name for path in exported.catalog.iterdir()} == {"20-two.yml", "new.yaml"}
    assert (exported.catalog / "20-two.yml").read_text() == TWO + "order: 5\n"
    assert (exported.catalog / "new.yaml").stat().st_mode & 0o777 == 0o644
    assert "0 of 2 environments were written" in exported.run("import", "git")


def test_diff_shows_lines(exported: Site) -> None:
    (exported.git / "one.yaml").write_text(ONE.replace("One", "Eins"))
    said = exported.run("diff", "git", status=1)
    assert "--- catalog/one.yaml\n+++ git/one.yaml\n" in said
    assert "-title: One\n+title: Eins\n" in said


def test_an_edit_in_two_places_is_shown_and_not_lost(exported: Site) -> None:
    (exported.git / "one.yaml").write_text(ONE.replace("One", "In git"))
    (exported.git / "two.yaml").write_text(TWO + "order: 5\n")
    (exported.catalog / "one.yaml").write_text(ONE.replace("One", "On the page"))
    said = exported.run("import", "git", status=1)
    assert "-title: On the page\n+title: In git\n" in said
    assert "Nothing was imported" in said
    assert "On the page" in (exported.catalog / "one.yaml").read_text()
    assert (exported.catalog / "20-two.yml").read_text() == TWO  # all or none
    said = exported.run("export", "git", status=1)
    assert "one was changed in both" in said
    assert "In git" in (exported.git / "one.yaml").read_text()


def test_ours_and_theirs(exported: Site) -> None:
    for path, title in ((exported.git / "one.yaml", "G"), (exported.catalog / "one.yaml", "P")):
        path.write_text(ONE.replace("One", title))
    said = exported.run("import", "--theirs=one", "git")
    assert "one was changed in the catalog" in said
    assert "title: P" in (exported.catalog / "one.yaml").read_text()
    exported.run("import", "git", status=1)  # it is still one
    exported.run("import", "--ours=one", "git")
    assert "title: G" in (exported.catalog / "one.yaml").read_text()
    (exported.catalog / "one.yaml").write_text(ONE.replace("One", "P2"))
    (exported.git / "one.yaml").write_text(ONE.replace("One", "G2"))
    exported.run("export", "--theirs=one", "git")
    assert "title: P2" in (exported.git / "one.yaml").read_text()
    assert exported.run("diff", "git") == ""


def test_what_only_the_catalog_changed_stays_there(exported: Site) -> None:
    (exported.catalog / "one.yaml").write_text(ONE.replace("One", "Page"))
    (exported.catalog / "three.yaml").write_text(ONE.replace("one", "three"))
    said = exported.run("import", "git")
    assert "one was changed in the catalog; kept there" in said
    assert "three is only in the catalog; kept there" in said
    assert "Page" in (exported.catalog / "one.yaml").read_text()
    exported.run("export", "git")
    assert "Page" in (exported.git / "one.yaml").read_text()
    assert (exported.git / "three.yaml").exists()


def test_what_waits_in_the_folder_is_not_overwritten_by_an_export(exported: Site) -> None:
    (exported.git / "one.yaml").write_text(ONE.replace("One", "Mine"))
    exported.run("export", "git")
    assert "Mine" in (exported.git / "one.yaml").read_text()
    assert "one is changed" in exported.run("import", "git")


def test_removed_on_one_side_and_changed_on_the_other(exported: Site) -> None:
    (exported.git / "one.yaml").unlink()
    (exported.catalog / "one.yaml").write_text(ONE.replace("One", "Page"))
    assert "/dev/null" in exported.run("import", "git", status=1)
    assert (exported.catalog / "one.yaml").exists()


def test_a_folder_without_its_record_overwrites_nothing(exported: Site) -> None:
    (exported.git / "catalog.json").unlink()
    (exported.git / "one.yaml").write_text(ONE.replace("One", "Mine"))
    exported.run("import", "git", status=1)
    (exported.git / "catalog.json").write_text("<<<<<<< HEAD\n")
    assert "cannot be read" in exported.run("import", "git", status=1)
    (exported.git / "catalog.json").write_text("[1]")
    assert "from git" in exported.run("import", "git", status=1)


def test_an_empty_catalog_does_not_empty_the_folder(exported: Site) -> None:
    for path in exported.catalog.iterdir():
        path.unlink()
    assert "its file system is mounted" in exported.run("export", "git", status=1)
    assert (exported.git / "one.yaml").exists()


def test_a_file_that_is_wrong_in_the_catalog_stays_in_the_folder(exported: Site) -> None:
    (exported.catalog / "one.yaml").write_text("name: [")
    assert "one.yaml:1: not YAML" in exported.run("export", "git", status=1)
    assert (exported.git / "one.yaml").read_text() == ONE


@pytest.mark.parametrize(
    ("more", "line", "words"),
    [
        ("binds:\n  - source: /etc/shadow\n", 7, "may never be bound"),
        ("binds:\n  - source: /site/../etc\n", 7, "'..'"),
        ("binds:\n  - source: /data\n", 7, "c.CatalogRules.allowed_binds: /site"),
        ("variables:\n  BASH_ENV: x\n", 7, "does not allow this variable"),
        ("descripton: x\n", 6, "did you mean 'description'?"),
        ("tags: &a [*a]\n", 6, "anchors"),
        ("title: again\n", 6, "is duplicated"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_nothing_is_imported(
    exported: Site, more: str, line: int, words: str
) -> None:
    (exported.git / "one.yaml").write_text(ONE + more)
    (exported.git / "two.yaml").write_text(TWO + "order: 5\n")
    for said in (
        exported.run("validate", "git", status=1),
        exported.run("validate", "git/one.yaml", status=1),
    ):
        assert f"git/one.yaml:{line}: " in said
        assert words in said
    assert "Nothing was imported" in exported.run("import", "git", status=1)
    assert (exported.catalog / "20-two.yml").read_text() == TWO


def test_validate_is_content(exported: Site) -> None:
    assert "git: 2 environments, no problems" in exported.run("validate", "git")
    assert "git/one.yaml: 1 environment, no problems" in exported.run("validate", "git/one.yaml")


@pytest.mark.parametrize("words", [["export"], ["import", "a", "b"], ["validate"], ["diff"]])
def test_a_path_is_needed(site: Site, words: list[str]) -> None:
    assert "Name a " in site.run(*words, status=1)


def test_what_is_not_there(site: Site) -> None:
    assert "Folder git does not exist" in site.run("import", "git", status=1)
    assert "cannot be read" in site.run("validate", "git", status=1)
    site.git.mkdir()
    for path in site.catalog.iterdir():
        path.unlink()
    site.catalog.rmdir()
    assert "cannot read the directory" in site.run("import", "git", status=1)


def test_the_how_to_as_it_is_written(site: Site) -> None:
    """Its commands, one after another, in a real git."""
    blocks = re.findall(r"```console\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    words = site.git.parent / "bin"
    words.mkdir()
    portal = words / "portal"
    portal.write_text(f'#!/bin/sh\nexec {sys.executable} -m portal "$@" --config={site.config}\n')
    portal.chmod(0o755)
    (words / "sudo").write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    (words / "sudo").chmod(0o755)
    script = "\n".join(line for block in blocks for line in block.splitlines() if line)
    assert "portal environments import" in script
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=site.git.parent,
        env={
            **os.environ,
            "PATH": f"{words}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "EDITOR": "true",
            "HOME": str(site.git.parent),
            **{f"GIT_{who}_{what}": "x@y.z" for who in ("AUTHOR", "COMMITTER")
               for what in ("NAME", "EMAIL")},
        },
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
