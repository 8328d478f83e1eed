"""Handouts in a student's folder: real merges by git and nbgitpuller, and every broken state."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from portal_session.course import handouts
from portal_session.course.collecting import Collecting
from portal_session.course.handouts import NO_GIT, Handouts
from portal_session.service import ServiceError

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
COURSE = "dl101"
_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C.UTF-8"}
_WHO = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgSign=false")


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", *_WHO, *arguments]
    done = subprocess.run(
        argv, cwd=folder, env={**os.environ, **_GIT}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def notebook(*cells: str) -> str:
    """A notebook as Jupyter writes it: a line for each cell's text."""
    made = [
        {"cell_type": "code", "id": f"c{number}", "metadata": {}, "outputs": [], "source": [text]}
        for number, text in enumerate(cells)
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


class Course:
    """The portal's side: a repository, a bundle for each revision, and what was reported."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        git(place, "init", "-q", "-b", "main")
        self.reports: list[dict[str, str]] = []
        self.refusals: list[ServiceError] = []

    def publish(self, *removed: str, **files: str) -> str:
        for name in removed:
            (self.place / name).unlink()
        for name, text in files.items():
            self.write(name.replace("__", "/").replace("_", "."), text)
        return self.commit()

    def write(self, name: str, text: str | bytes) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def commit(self) -> str:
        git(self.place, "add", "-A")
        git(self.place, "commit", "-q", "-m", "handouts")
        return git(self.place, "rev-parse", "HEAD")

    def download(self, path: str, target: Path) -> None:
        assert path == "session/handouts"
        if self.refusals:
            raise self.refusals.pop(0)
        git(self.place, "bundle", "create", "-q", str(target), "HEAD", "refs/heads/main")

    def ask(self, method: str, path: str, body: dict[str, str]) -> dict[str, Any]:
        assert (method, path) == ("PUT", "session/handouts/report")
        self.reports.append(body)
        return {}


class Student:
    """A student's home, and the session's servers in it, one after the other."""

    def __init__(self, home: Path, course: Course) -> None:
        self.home, self.course = home, course
        self.folder = home / COURSE
        home.mkdir()
        self.log = logging.getLogger("student")
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "HOME": str(home),
        }
        self.server()

    def server(self) -> None:
        """A new one: what the last one knew is forgotten."""
        self.handouts = Handouts(self.course, COURSE, self.home, self.log, self.environ)

    def apply_situation(self, revision: str = "") -> str:
        """The sentence that the board got."""
        told = len(self.course.reports)
        revision = revision or git(self.course.place, "rev-parse", "HEAD")
        self.handouts.apply_situation({"handout": revision})
        return self.course.reports[-1]["message"] if len(self.course.reports) > told else ""

    def brought(self) -> bool:
        """Whether the board knows the newest revision as brought."""
        newest = git(self.course.place, "rev-parse", "HEAD")
        return bool(self.course.reports) and self.course.reports[-1]["revision"] == newest

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def names(self) -> set[str]:
        """Of every file, without git's own."""
        return {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.is_file() and ".git" not in path.relative_to(self.folder).parts[:1]
        }

    def everything(self) -> list[str]:
        """The text of every file in the home: nothing of a student's may ever be missing here."""
        return [path.read_text() for path in self.home.rglob("*") if path.is_file() and _text(path)]


def _text(path: Path) -> bool:
    return ".git" not in path.parts


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the merge finds this checkout's package, as it finds the installed one."""
    monkeypatch.setattr("portal_session.course.handouts.ISOLATED", "-P")
    monkeypatch.setenv("PYTHONPATH", str(KERNELS))


@pytest.fixture
def course(tmp_path: Path) -> Course:
    made = Course(tmp_path / "course")
    made.publish(a_txt="1\n2\n3\n4\n5\n6\n7\n8\n9\n", week1__b_txt="b\n")
    return made


@pytest.fixture
def student(tmp_path: Path, course: Course) -> Student:
    made = Student(tmp_path / "home", course)
    made.apply_situation()
    assert made.brought()
    return made


def test_the_first_time_files_are_there(student: Student) -> None:
    assert student.names() == {"a.txt", "week1/b.txt"}
    assert student.course.reports[-1]["message"] == ""


def test_a_new_file_comes_and_a_change_is_merged(student: Student, course: Course) -> None:
    student.write("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\nmine\n")
    course.publish(a_txt="new\n2\n3\n4\n5\n6\n7\n8\n9\n", c_txt="c\n")
    assert student.apply_situation() == ""
    assert student.read("a.txt") == "new\n2\n3\n4\n5\n6\n7\n8\nmine\n"
    assert student.read("c.txt") == "c\n"
    assert student.brought()


def test_on_the_same_line_the_students_stays(student: Student, course: Course) -> None:
    student.write("a.txt", "mine\n2\n3\n4\n5\n6\n7\n8\n9\n")
    course.publish(a_txt="theirs\n2\n3\n4\n5\n6\n7\n8\nnew end\n")
    student.apply_situation()
    assert student.read("a.txt") == "mine\n2\n3\n4\n5\n6\n7\n8\nnew end\n"
    # and again, with what is already committed
    student.write("a.txt", "mine\n2\n3\n4\nfive\n6\n7\n8\nnew end\n")
    course.publish(a_txt="again\n2\n3\n4\n5\n6\n7\n8\nnew end\n")
    student.apply_situation()
    assert student.read("a.txt") == "mine\n2\n3\n4\nfive\n6\n7\n8\nnew end\n"


def test_a_deleted_file_comes_back_with_the_next_server(student: Student) -> None:
    (student.folder / "week1/b.txt").unlink()
    student.apply_situation()
    assert "week1/b.txt" not in student.names(), "while the server runs, deleted is deleted"
    student.server()
    student.apply_situation()
    assert student.read("week1/b.txt") == "b\n"


def test_a_file_of_the_same_name_is_set_beside(student: Student, course: Course) -> None:
    student.write("week2.txt", "mine\n")
    course.publish(week2_txt="theirs\n")
    said = student.apply_situation()
    assert student.read("week2.txt") == "theirs\n"
    (beside,) = student.folder.glob("week2__*.txt")
    assert beside.read_text() == "mine\n"
    assert beside.name in said and "renamed" in said


def test_the_same_file_to_the_byte_makes_no_second_one(student: Student, course: Course) -> None:
    student.write("week2.txt", "the same\n")
    course.publish(week2_txt="the same\n")
    assert student.apply_situation() == ""
    assert student.names() == {"a.txt", "week1/b.txt", "week2.txt"}


def test_a_file_where_a_folder_comes_is_set_beside(student: Student, course: Course) -> None:
    student.write("week2", "mine\n")
    (student.folder / "week3").symlink_to(student.home)
    (student.folder / "week4.txt").symlink_to("/nowhere")
    course.publish(week2__x_txt="x\n", week3__y_txt="y\n", week4_txt="z\n")
    student.apply_situation()
    assert student.read("week2/x.txt") == "x\n"
    assert student.read("week3/y.txt") == "y\n"
    assert student.read("week4.txt") == "z\n"
    assert not (student.home / "y.txt").exists()
    (beside,) = student.folder.glob("week2__*")
    assert beside.read_text() == "mine\n"
    assert [link.is_symlink() for link in student.folder.glob("week[34]__*")] == [True, True]


def test_what_is_gone_upstream_goes_unless_it_was_changed(student: Student, course: Course) -> None:
    student.write("a.txt", "mine\n")
    course.publish("a.txt", "week1/b.txt", new_txt="new\n")
    student.apply_situation()
    assert student.names() == {"a.txt", "new.txt"}
    assert student.read("a.txt") == "mine\n"
    course.publish(a_txt="back\n")
    student.apply_situation()
    assert "mine\n" in student.everything()


def test_a_name_with_letters_of_the_world(student: Student, course: Course) -> None:
    course.write("Übung 1 à.txt", "theirs\n")
    course.commit()
    student.write("Übung 1 à.txt", "mine\n")
    student.apply_situation()
    assert student.read("Übung 1 à.txt") == "theirs\n"
    assert "mine\n" in student.everything()


def test_a_file_with_another_name_upstream(student: Student, course: Course) -> None:
    student.write("a.txt", "1\n2\n3\n4\nmine\n6\n7\n8\n9\n")
    git(course.place, "mv", "a.txt", "z.txt")
    course.commit()
    student.write("z.txt", "another of mine\n")
    student.apply_situation()
    assert student.brought()
    assert student.read("z.txt").startswith("1\n2\n")
    assert "another of mine\n" in student.everything()
    assert "1\n2\n3\n4\nmine\n6\n7\n8\n9\n" in student.everything()


def test_a_notebook_that_no_merge_makes_readable_is_set_beside(
    student: Student, course: Course
) -> None:
    name, middle = "n.ipynb", "  1,\n  2,\n  3,\n  4,\n  5\n"
    course.write(name, f"[\n{middle}]\n")
    course.commit()
    student.apply_situation()
    # The first line is changed by both: the student's stays, and the new last line fits no more.
    theirs = f'{{"k": [\n{middle}]}}\n'
    student.write(name, f"[0,\n{middle}]\n")
    course.write(name, theirs)
    course.commit()
    said = student.apply_situation()
    assert json.loads(student.read(name)) == [0, 1, 2, 3, 4, 5]
    assert "notebook" in said
    (beside,) = student.folder.glob("n__*.ipynb")
    assert beside.read_text() == theirs


def test_cells_at_two_places_are_merged(student: Student, course: Course) -> None:
    course.write("n.ipynb", notebook("one", "two", "three"))
    course.commit()
    student.apply_situation()
    student.write("n.ipynb", notebook("one", "two", "my answer"))
    course.write("n.ipynb", notebook("better one", "two", "three"))
    course.commit()
    assert student.apply_situation() == ""
    cells = [cell["source"][0] for cell in json.loads(student.read("n.ipynb"))["cells"]]
    assert cells == ["better one", "two", "my answer"]


def break_lock(student: Student) -> None:
    (student.folder / ".git/index.lock").touch()
    (student.folder / ".git/refs/remotes/origin/main.lock").touch()


def break_index(student: Student) -> None:
    (student.folder / ".git/index").write_bytes(b"DIRC")


def break_head(student: Student) -> None:
    (student.folder / ".git/HEAD").write_bytes(b"")


def break_refs(student: Student) -> None:
    for path in (student.folder / ".git/refs").rglob("main"):
        path.write_bytes(b"")


def break_objects(student: Student) -> None:
    shutil.rmtree(student.folder / ".git/objects")
    (student.folder / ".git/objects").mkdir()


def break_repository(student: Student) -> None:
    shutil.rmtree(student.folder / ".git")


def break_merge(student: Student) -> None:
    """A merge that was cut off, with a conflict in the folder."""
    git(student.folder, "checkout", "-q", "-b", "mine")
    student.write("week1/b.txt", "theirs there\n")
    git(student.folder, "commit", "-qam", "one")
    git(student.folder, "checkout", "-q", "-b", "other", "HEAD~1")
    student.write("week1/b.txt", "mine\n")
    git(student.folder, "commit", "-qam", "two")
    failed = subprocess.run(
        ["git", *_WHO, "merge", "mine"], cwd=student.folder, capture_output=True, check=False
    )
    assert failed.returncode == 1
    assert (student.folder / ".git/MERGE_HEAD").exists()


BREAKS = [
    break_lock,
    break_index,
    break_head,
    break_refs,
    break_objects,
    break_repository,
    break_merge,
]


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_what_is_broken_repairs_itself(
    student: Student, course: Course, broken: Callable[[Student], None]
) -> None:
    student.write("a.txt", "mine\n2\n3\n4\n5\n6\n7\n8\n9\n")
    student.write("own.txt", "my own\n")
    broken(student)
    course.publish(a_txt="1\n2\n3\n4\n5\n6\n7\n8\nnew\n", c_txt="c\n")
    student.server()
    student.apply_situation()
    assert student.brought(), course.reports
    assert student.read("c.txt") == "c\n"
    # The portal remembers what the folder had: even without its repository both changes are in.
    assert student.read("a.txt") == "mine\n2\n3\n4\n5\n6\n7\n8\nnew\n"
    assert student.read("own.txt") == "my own\n"
    student.write("c.txt", "changed\n")
    course.publish(d_txt="d\n")
    student.apply_situation()
    assert student.brought(), course.reports
    assert (student.read("c.txt"), student.read("d.txt")) == ("changed\n", "d\n")


def test_a_merge_that_was_killed_anywhere_loses_nothing(
    student: Student, course: Course, tmp_path: Path
) -> None:
    """The program is killed after each of its git commands in turn, and started again."""
    slow = tmp_path / "slow"
    slow.mkdir()
    real = shutil.which("git")
    (slow / "git").write_text(
        f"#!/bin/sh\nn=$(($(cat {tmp_path}/left) - 1))\necho $n > {tmp_path}/left\n"
        f'[ $n -gt 0 ] || {{ kill -9 $PPID; exit 1; }}\nexec {real} "$@"\n'
    )
    (slow / "git").chmod(0o755)
    for commands in range(1, 40, 5):
        mine = f"mine {commands}\n"
        student.write("a.txt", mine + student.read("a.txt").partition("\n")[2])
        student.write(f"new{commands}.txt", mine)
        course.write("a.txt", f"1\n2\n3\n4\n5\n6\n7\n8\nend {commands}\n")
        course.write(f"new{commands}.txt", f"theirs {commands}\n")
        course.commit()
        (tmp_path / "left").write_text(str(commands))
        normal, student.environ["PATH"] = student.environ["PATH"], f"{slow}:{os.environ['PATH']}"
        student.server()
        student.apply_situation()
        student.environ["PATH"] = normal
        student.server()
        student.apply_situation()
        assert student.brought(), course.reports[-1]
        assert student.read("a.txt") == f"{mine}2\n3\n4\n5\n6\n7\n8\nend {commands}\n"
        assert student.read(f"new{commands}.txt") == f"theirs {commands}\n"
        assert mine in student.everything()
    assert not list(student.home.glob(f"{COURSE}__*")), "no folder was given up"


def test_what_git_cannot_merge_is_set_beside_whole(student: Student, course: Course) -> None:
    student.write("a.txt", "mine\n")
    (student.folder / ".git/info/attributes").write_text("*.txt merge=bad\n")
    git(student.folder, "config", "merge.bad.driver", "false")  # always a conflict
    course.publish(a_txt="theirs\n", new_txt="new\n")
    said = student.apply_situation()
    assert student.brought(), course.reports
    (beside,) = student.home.glob(f"{COURSE}__*")
    assert (beside / "a.txt").read_text() == "mine\n"
    assert student.read("new.txt") == "new\n"
    assert beside.name in said


def test_a_folder_in_the_place_of_a_changed_file(student: Student, course: Course) -> None:
    student.write("a.txt", "mine\n")
    (course.place / "a.txt").unlink()
    course.write("a.txt/x.txt", "x\n")
    course.commit()
    student.apply_situation()
    assert student.brought(), course.reports
    assert student.read("a.txt/x.txt") == "x\n"
    assert "mine\n" in student.everything()


def test_a_folder_that_is_there_already_keeps_what_is_in_it(tmp_path: Path, course: Course) -> None:
    student = Student(tmp_path / "home", course)
    student.write("a.txt", "mine\n")
    student.write("own.txt", "own\n")
    student.apply_situation()
    assert student.brought(), course.reports
    assert (student.read("a.txt"), student.read("own.txt")) == ("mine\n", "own\n")
    assert student.read("week1/b.txt") == "b\n"


def test_a_file_of_the_folders_name_is_set_beside(tmp_path: Path, course: Course) -> None:
    student = Student(tmp_path / "home", course)
    student.folder.write_text("mine\n")
    said = student.apply_situation()
    assert student.names() == {"a.txt", "week1/b.txt"}
    assert "mine\n" in student.everything()
    assert "was renamed to" in said


def test_a_repository_of_the_students_own_is_left_alone(tmp_path: Path, course: Course) -> None:
    student = Student(tmp_path / "home", course)
    student.folder.mkdir()
    git(student.folder, "init", "-q")
    student.write("mine.txt", "mine\n")
    git(student.folder, "add", "-A")
    git(student.folder, "commit", "-q", "-m", "mine")
    assert "your own git repository" in student.apply_situation()
    assert student.names() == {"mine.txt"}
    assert not student.brought()


def test_hooks_and_settings_of_the_student_play_no_part(
    student: Student, course: Course, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    (student.home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {tmp_path}/hooks\n\tquotePath = true\n[merge]\n\tff = only\n"
        f'[filter "evil"]\n\tclean = touch {mark}\n\tsmudge = touch {mark}\n'
        "[commit]\n\tgpgSign = true\n"
    )
    (tmp_path / "hooks").mkdir()
    for folder in (tmp_path / "hooks", student.folder / ".git/hooks"):
        for name in ("post-merge", "post-checkout", "pre-commit", "post-rewrite"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
            (folder / name).chmod(0o755)
    course.write(".gitattributes", "* filter=evil\n")
    student.write("a.txt", "mine\n2\n3\n4\n5\n6\n7\n8\n9\n")
    course.publish(c_txt="c\n")
    student.apply_situation()
    assert student.brought(), course.reports
    assert student.read("c.txt") == "c\n"
    assert not mark.exists()


def test_without_git_there_is_a_sentence(student: Student, course: Course) -> None:
    student.environ["PATH"] = "/nowhere"
    course.publish(c_txt="c\n")
    assert student.apply_situation() == NO_GIT
    assert not student.brought()


def test_a_portal_that_is_away_is_tried_again(student: Student, course: Course) -> None:
    course.publish(c_txt="c\n")
    course.refusals = [ServiceError("The portal cannot be reached.", 503)] * 2
    first = student.handouts.apply_situation({"handout": "x"})
    second = student.handouts.apply_situation({"handout": "x"})
    assert 0 < first < second
    assert "cannot be reached" in course.reports[-1]["message"]
    student.apply_situation()
    assert student.brought() and student.read("c.txt") == "c\n"


def test_where_nothing_is_handed_out_nothing_is_asked(student: Student) -> None:
    told = len(student.course.reports)
    student.server()
    assert (
        student.handouts.apply_situation({"handout": ""})
        == student.handouts.apply_situation({})
        == 0.0
    )
    assert len(student.course.reports) == told
    assert isinstance(Collecting(None, student.home, student.log).apply_situation({}), float)
    assert handouts.PERIOD > 0
