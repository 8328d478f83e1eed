"""Site with the program for folders of projects, installed as in the demo, without the demo.

``python project_folder_site.py HOME`` enters the demo's namespace and serves calls: a line of JSON
with "argv" and how to run it, and a line with the answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from portal.demo import namespace, project_folders
from portal.demo.home import Home
from portal.demo.people import People
from portal.paths import data_path

# Calls of the system that change something; "open" does if it creates a file.
CHANGES = ("mkdir", "rmdir", "fchown", "fchmod", "setxattr", "rename", "unlink", "fsync", "open")
PEOPLE = {"ada": 6101, "grace": 6102, "barbara": 6103, "student01": 6111}

needs_namespace = pytest.mark.skipif(
    not namespace.allowed(), reason="this machine refuses mount namespaces"
)


class Called(NamedTuple):
    """Result of a call; ``status`` is negative if a signal ended it."""

    status: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        assert self.status == 0, self
        value: dict[str, Any] = json.loads(self.out)
        return value


class FolderSite:
    """Site in a home that all accounts can enter; its calls are made in the demo's namespace."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "h", root / "c")
        self.projects = self.home.demo / "projects"
        self.members = self.home.demo / "project-members"
        self.states = self.home.demo / "project-states"
        self.helper = project_folders.helper(self.home)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.pid = self._process.pid
        self._read()
        self.settings = Path(f"/proc/{self.pid}/root/etc", project_folders.SETTINGS)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _read(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process in the namespace ended"
        return json.loads(line)

    def call(
        self,
        *argv: str,
        kill_at: int = 0,
        program: tuple[str, ...] = (),
        uid: int = 0,
        env: dict[str, str] | None = None,
        times: int = 1,
        ignored: str = "",
    ) -> Called:
        """Call the program as root. ``kill_at``: it is killed before this change of the system (1:
        the first). ``program``: start this as ``uid`` instead, with ``env`` as its environment.
        ``times``: that many calls at the same moment; the result is the last one's. ``ignored``: a
        function of ``os`` that has no effect, as on a file system that only seems to do it."""
        words = {"argv": argv, "kill_at": kill_at, "program": program, "uid": uid, "env": env or {}}
        self._send(words | {"times": times, "ignored": ignored})
        return self.ended()

    def begin(self, *argv: str) -> None:
        """Begin a call as root; `ended` waits for it."""
        self._send({"argv": argv, "kill_at": 0, "program": (), "times": 1, "ignored": ""})

    def ended(self) -> Called:
        return Called(*self._read())

    def _send(self, words: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def tell(self, project: str, text: str | dict[str, str]) -> None:
        """Write a project's file of members: members and roles, or any text."""
        if isinstance(text, dict):
            text = json.dumps({"project": project, "members": text})
        file = self.members / f"{project}.json"
        file.unlink(missing_ok=True)
        file.write_text(text, errors="surrogateescape")
        file.chmod(0o644)
        os.chown(file, 6100, 6099)

    def make(self, project: str, **roles: str) -> Path:
        """Make a project's folder with these members; return it."""
        self.tell(project, roles)
        assert self.call(project, "make").answer["refused"] == []
        return self.projects / project


def as_person(name: str, words: str, *arguments: object, umask: int = 0o077) -> bool:
    """Execute a shell's command as a person of the demo; return True if it succeeded."""
    uid = PEOPLE[name]
    done = subprocess.run(
        ["sh", "-euc", words, "sh", *map(str, arguments)],
        user=uid, group=uid, extra_groups=[], umask=umask, cwd="/", capture_output=True,
        timeout=60,
    )  # fmt: skip
    return done.returncode == 0


def tree_hash(root: Path) -> str:
    """Return a hash of all names below a folder, with types, modes, owners, ACLs and contents."""
    found = hashlib.sha256()
    for path in sorted([root, *root.rglob("*")]):
        status = path.lstat()
        row: list[Any] = [str(path.relative_to(root)), status.st_mode, status.st_uid, status.st_gid]
        row.append(status.st_nlink)
        if stat.S_ISLNK(status.st_mode):
            row.append(str(path.readlink()))
        else:
            row += [
                (name, os.getxattr(path, name, follow_symlinks=False))
                for name in sorted(os.listxattr(path, follow_symlinks=False))
            ]
        if stat.S_ISREG(status.st_mode):
            row.append(hashlib.sha256(path.read_bytes()).hexdigest())
        found.update(repr(row).encode())
    return found.hexdigest()


def _die_at(number: int) -> None:
    """Make this process kill itself before its change ``number`` of the system."""
    seen = 0

    def counted(function: Callable[..., Any], creates: bool) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            nonlocal seen
            if not creates or (len(args) > 1 and args[1] & os.O_CREAT):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **more)

        return call

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name), name == "open"))


def _in_child(helper: ModuleType, words: dict[str, Any], tell: int) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if words["kill_at"]:
            _die_at(words["kill_at"])
        if words["ignored"]:
            setattr(os, words["ignored"], lambda *_, **__: None)
        status = helper.main(words["argv"])
    os.write(tell, json.dumps([status, out.getvalue(), err.getvalue()]).encode())


def _forked(helper: ModuleType, words: dict[str, Any]) -> tuple[int, int]:
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _in_child(helper, words, tell)
        finally:
            os._exit(1)
    os.close(tell)
    return child, heard


def _result(child: int, heard: int) -> list[Any]:
    text = b""
    while part := os.read(heard, 1 << 16):
        text += part
    os.close(heard)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    value: list[Any] = json.loads(text) if text else [status, "", ""]
    return value


def _started(words: dict[str, Any]) -> list[Any]:
    done = subprocess.run(
        [*words["program"], *words["argv"]],
        user=words["uid"], group=words["uid"], extra_groups=[], cwd="/", capture_output=True,
        text=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | words["env"], timeout=60,
    )  # fmt: skip
    return [done.returncode, done.stdout, done.stderr]


def _serve(root: Path) -> None:
    home = Home(root / "h", root / "c")
    home.make(shared=True)
    (home.demo / "slurm" / "etc").mkdir(parents=True)
    deploy = data_path("deploy")
    namespace.enter(home, People.read(deploy / "demo" / "people.toml"), deploy)
    loader = SourceFileLoader("project_folder", str(project_folders.helper(home)))
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    helper = importlib.util.module_from_spec(spec)
    loader.exec_module(helper)
    print("true", flush=True)
    for line in sys.stdin:
        words = json.loads(line)
        if words["program"]:
            print(json.dumps(_started(words)), flush=True)
            continue
        children = [_forked(helper, words) for _ in range(words["times"])]
        results = [_result(*child) for child in children]
        print(json.dumps(max(results)), flush=True)


@contextlib.contextmanager
def folder_site(root: Path) -> Iterator[FolderSite]:
    """Yield a site in the folder ``root``, which is deleted by the caller."""
    site = FolderSite(root)
    try:
        yield site
    finally:
        site.close()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
