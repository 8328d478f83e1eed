"""Merge of a course's handouts into its folder, by nbgitpuller's rules: the student's changes
stay, new files come, deleted files come back, and what cannot be merged is saved beside.

Run as ``python -I -m portal_session.course.merging BUNDLE FOLDER BASE``: BUNDLE is a git bundle
with the branch below, FOLDER the student's, BASE the revision that it had last ("" for none). It
prints one JSON object, {"message": …, "revision": …} or {"error": …}, each a sentence. A program
of its own, since git takes its time and its settings here are not the student's.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nbgitpuller.pull import GitPuller

from .. import git_safety

BRANCH = "main"  # of every bundle that the portal makes
_UPSTREAM = f"origin/{BRANCH}"
_OURS = "portal.handouts"  # a git setting that marks repositories made here
_BUSY = "Another git process is using the handouts folder; the handouts arrive when it has ended."
# The student's own settings are neither changed nor used: no hooks or filters run, names are not
# quoted (nbgitpuller reads them line by line), and a renamed file counts as one deleted and one
# added.
_SETTINGS = """\
[core]
\thooksPath = /dev/null
\tfsmonitor = false
\tquotePath = false
\tautocrlf = false
[diff]
\trenames = false
[merge]
\trenames = false
\tdirectoryRenames = false
[gc]
\tauto = 0
[safe]
\tdirectory = *
\tbareRepository = explicit
[init]
\tdefaultBranch = main
[advice]
\tdetachedHead = false
"""


class CannotMerge(Exception):
    """Reason why the handouts could not be brought, in a sentence."""


class _Puller(GitPuller):
    """Puller of nbgitpuller that records the revision before the merge."""

    before = ""

    def merge(self) -> Iterator[str]:
        self.before = Repository(Path(self.repo_dir)).git("rev-parse", "HEAD").strip()
        yield from super().merge()


class Repository:
    """Folder of handouts, as a git repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        """Return git's output. Raises subprocess.CalledProcessError, with its error output."""
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, check=True)
        return done.stdout.decode("utf-8", "surrogateescape")

    def has(self, *arguments: str) -> bool:
        """Return True if the git command succeeds."""
        try:
            self.git(*arguments)
        except subprocess.CalledProcessError:
            return False
        return True

    def paths(self, *arguments: str) -> list[str]:
        """Return paths, as git lists them with -z."""
        return [path for path in self.git(*arguments).split("\0") if path]

    # -- a repository that can be merged into -------------------------------------------------

    def prepare(self, bundle: Path, base: str) -> None:
        """Make the folder a repository that follows ``bundle``, whatever state it is in. Files are
        not touched. Raises CannotMerge, subprocess.CalledProcessError."""
        own = self.folder / ".git"
        if own.is_dir() and not own.is_symlink() and own.stat().st_uid == os.geteuid():
            self._unlock(own)
            if not self.has("ls-files", "-z"):  # the index is truncated
                (own / "index").unlink(missing_ok=True)
            if self.has("rev-parse", "-q", "--verify", "HEAD^{tree}"):
                if not self.has("config", "--local", _OURS):
                    raise CannotMerge(
                        f"The folder '{self.folder.name}' is your own git repository. Rename it; "
                        "then the handouts arrive."
                    )
                try:
                    # Also ends an interrupted merge: files stay as they are.
                    self.git("reset", "-q", "--mixed")
                    self._follow(bundle)
                    return
                except subprocess.CalledProcessError as error:
                    _no_room(str(error.stderr))
        if os.path.lexists(own):
            own.rename(_beside(own))
        self.git("init", "-q")
        self.git("symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")
        self._follow(bundle)
        known = base and self.has("cat-file", "-e", f"{base}^{{commit}}")
        self.git("update-ref", f"refs/heads/{BRANCH}", base if known else _UPSTREAM)
        self.git("reset", "-q", "--mixed")

    def _follow(self, bundle: Path) -> None:
        self.git("config", "remote.origin.url", str(bundle))
        self.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
        self.git("config", _OURS, "true")
        self.git("fetch", "-q", "origin")

    def _unlock(self, own: Path) -> None:
        """Remove the locks of a git that died. Raises CannotMerge if one works here."""
        if _working_in(self.folder):
            raise CannotMerge(_BUSY)
        for lock in [*own.glob("*.lock"), *own.glob("refs/**/*.lock")]:
            lock.unlink(missing_ok=True)

    # -- files in the way -----------------------------------------------------------------------

    def make_way(self) -> list[str]:
        """Rename what nbgitpuller does not see in the place of a new file: links, and files where
        a folder is to be; return the new names. Files that are identical to the new ones are
        removed."""
        moved = []
        upstream = "diff", "--no-renames", "-z", "--name-only", "--diff-filter=A"
        for name in self.paths(*upstream, "HEAD", _UPSTREAM):
            path = self.folder / name
            for parent in reversed(path.relative_to(self.folder).parents[:-1]):
                place = self.folder / parent
                in_the_way = place.is_symlink() or (os.path.lexists(place) and not place.is_dir())
                if in_the_way and not self.has("cat-file", "-e", f"HEAD:{parent}"):
                    moved.append(self._aside(place))
            if path.is_symlink():
                moved.append(self._aside(path))
            elif path.is_file() and self._same(path, name):
                path.unlink()
        return moved

    def _aside(self, place: Path) -> str:
        new_path = _beside(place)
        place.rename(new_path)
        return str(new_path.relative_to(self.folder))

    def _same(self, path: Path, name: str) -> bool:
        """Return True if a file is byte for byte the upstream one."""
        coming = self.git("rev-parse", f"{_UPSTREAM}:{name}").strip()
        return self.git("hash-object", "--no-filters", "--", str(path)).strip() == coming

    # -- the result -----------------------------------------------------------------------------

    def whole_notebooks(self, before: str) -> list[str]:
        """Repair notebooks whose merge, which is line by line, cannot be read: the student's stays
        as it was, and the new one is saved beside. Return the names of those."""
        beside = []
        changed = "diff", "--no-renames", "-z", "--name-only", "--diff-filter=M"
        for name in self.paths(*changed, before, "HEAD", "--", "*.ipynb"):
            path = self.folder / name
            if _is_json(path.read_bytes()) or not _is_json(self._blob(before, name)):
                continue
            upstream_path = _beside(path)
            upstream_path.write_bytes(self._blob(_UPSTREAM, name))
            path.write_bytes(self._blob(before, name))
            beside.append(str(upstream_path.relative_to(self.folder)))
        return beside

    def _blob(self, revision: str, name: str) -> bytes:
        command = ["git", "cat-file", "blob", f"{revision}:{name}"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, check=True).stdout

    @property
    def done(self) -> bool:
        """Return True if everything in the bundle is merged, and no conflict is left."""
        merged = self.has("merge-base", "--is-ancestor", _UPSTREAM, "HEAD")
        return merged and not self.paths("ls-files", "--unmerged", "-z")


def bring(bundle: Path, folder: Path, base: str) -> dict[str, str]:
    """Bring the files of ``bundle`` into ``folder``. Raises CannotMerge."""
    sentences: list[str] = []
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
        new_path = _beside(folder)
        folder.rename(new_path)
        sentences.append(f"'{folder.name}' was renamed to '{new_path.name}'.")
    if not folder.exists():
        _clone(bundle, folder)
    else:
        sentences += _update(bundle, folder, base)
    revision = Repository(folder).git("rev-parse", _UPSTREAM).strip()
    return {"revision": revision, "message": " ".join(sentences)}


def _update(bundle: Path, folder: Path, base: str) -> list[str]:
    repository = Repository(folder)
    repository.prepare(bundle, base)
    try:
        moved = repository.make_way()
        puller = _Puller(str(bundle), str(folder), branch=BRANCH, depth=0)
        moved += [
            line.rpartition(" to ")[0].partition(" to ")[2]
            for line in _pulled(puller)
            if line.startswith("Renamed ")
        ]
        beside = repository.whole_notebooks(puller.before)
        if repository.done:
            return _sentences(folder, moved, beside)
    except CannotMerge:
        raise
    except Exception as error:  # nbgitpuller raises any exception
        _no_room(str(getattr(error, "stderr", "")))
        if _working_in(folder):
            raise CannotMerge(_BUSY) from None
        print(f"The merge failed: {error!r}", file=sys.stderr)
    # On any error: all files of the student's stay, under another name.
    new_path = _beside(folder)
    _clone(bundle, folder, instead=new_path)
    return [
        f"The handouts could not be merged into your folder. They are in '{folder.name}'; "
        f"your folder was renamed to '{new_path.name}'."
    ]


def _pulled(puller: GitPuller) -> list[str]:
    """Return the lines of a successful pull, which are also printed to the log. Raises its errors;
    CannotMerge if the disk is full."""
    lines = []
    try:
        for line in puller.pull():
            lines.append(line.rstrip())
            print(lines[-1], file=sys.stderr)
    except subprocess.CalledProcessError:
        _no_room(" ".join(lines[-5:]))
        raise
    return lines


def _sentences(folder: Path, moved: list[str], beside: list[str]) -> list[str]:
    sentences = []
    names = [path.removeprefix(f"{folder}/") for path in moved]
    if names:
        sentences.append(
            "Your files with the names of new files were renamed: "
            f"{', '.join(names[:5])}{', …' if len(names) > 5 else ''}."
        )
    if beside:
        sentences.append(
            "You and the course changed the same notebook. Yours was kept; the new version is "
            f"saved as: {', '.join(beside[:5])}."
        )
    return sentences


def _clone(bundle: Path, folder: Path, instead: Path | None = None) -> None:
    """Create the folder, completely or not at all. A folder that existed is then ``instead``."""
    for left in folder.parent.glob(f".{folder.name}-new-*"):  # of a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-new-", dir=folder.parent))
    try:
        new = work / folder.name
        _pulled(GitPuller(str(bundle), str(new), branch=BRANCH, depth=0))
        Repository(new).git("config", _OURS, "true")
        if instead is not None:
            folder.rename(instead)
        new.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _beside(path: Path) -> Path:
    """Return an unused name beside ``path``, as nbgitpuller makes them: a__20260131120000.txt."""
    stamp = datetime.datetime.now().strftime("__%Y%m%d%H%M%S")
    name = f"{path.stem}{stamp}{path.suffix}"
    count = 1
    while os.path.lexists(path.with_name(name)):
        count += 1
        name = f"{path.stem}{stamp}-{count}{path.suffix}"
    return path.with_name(name)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _working_in(folder: Path) -> bool:
    """Return True if a git of this session works in ``folder`` now."""
    inside = f"{folder.resolve()}/"
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "comm").read_text().strip() == "git":
                if f"{(process / 'cwd').readlink()}/".startswith(inside):
                    return True
    return False


def _no_room(output: str) -> None:
    """Raise CannotMerge if git reported that the disk is full."""
    if "No space left" in output or "quota exceeded" in output.lower():
        raise CannotMerge("Your disk is full, so the handouts could not be updated.")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder: while a session moves, two servers have the same home. Raises
    CannotMerge."""
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        for left in range(60, -1, -1):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not left:
                    raise CannotMerge("Another of your servers is updating the handouts.") from None
                time.sleep(0.5)
            except OSError:
                break  # a file system without locks
        yield


def use_settings(place: Path) -> None:
    """Make git read the settings above and no others from now on; they are written into
    ``place``."""
    (place / ".gitconfig").write_text(_SETTINGS)
    for name in [variable for variable in os.environ if variable.startswith("GIT_")]:
        del os.environ[name]
    os.environ.update(
        HOME=str(place),  # GIT_CONFIG_GLOBAL is not known before git 2.32
        XDG_CONFIG_HOME=str(place),
        GIT_CONFIG_NOSYSTEM="1",
        GIT_ALLOW_PROTOCOL="file",
        GIT_TERMINAL_PROMPT="0",
        GIT_EDITOR="true",
        GIT_NO_LAZY_FETCH="1",
        **git_safety.variables(),  # those of the folder's own repository precede the file's
        LC_ALL="C.UTF-8",  # nbgitpuller parses git's messages, in English
    )


def main(arguments: list[str]) -> int:
    """Run the program; see the module."""
    bundle, folder, base = arguments
    with tempfile.TemporaryDirectory(prefix="portal-git-") as place:
        use_settings(Path(place))
        try:
            with alone(Path(folder)):
                result = bring(Path(bundle), Path(folder), base)
        except CannotMerge as error:
            result = {"error": str(error)}
        except subprocess.CalledProcessError as error:
            lines = str(error.stderr or b"", "utf-8", "replace").strip().splitlines()
            print(*lines, sep="\n", file=sys.stderr)
            last = lines[-1][:200] if lines else f"git ended with status {error.returncode}"
            result = {"error": f"git could not update the handouts: {last}"}
        except OSError as error:
            result = {"error": f"The handouts could not be written: {error.strerror}."}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
