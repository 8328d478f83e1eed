#!/usr/bin/env python3
"""Move files of the repository as mappings say, and rewrite every reference to them.

    python3 move.py [--repo DIR] [--no-commit] [--ruff PROGRAM] [--python PROGRAM] [--log DIR] MAP [MAP...]

Each mapping becomes one commit. It can be run on any later state: sources that are gone are named
and skipped, files that the mapping does not know are named and left where they are.

A mapping has one entry a line; ``#`` begins a comment line:

    title: Move the spawner's modules into rooms
    room spawners/launch: Docstring of the folder's __init__.py.
    spawners/turns.py -> spawners/lifecycle/spawn_queue.py     a file; the new name counts
    tests/store/ -> tests/integration/store/                   each file of a folder, also new ones
    keep spawners/proxy.py: SessionProxy                       this address stays, for sites
    stay spawners/settings.py                                  known, and where it belongs
    sort tests/unit/test_wall_clock.py                         its lines that begin with paths
    edit tests/benchmarks/__init__.py                          a change of words, by the new path
    <<<<
    old text
    ====
    new text
    >>>>

What is rewritten: imports (by their meaning, from the syntax tree), uses of a renamed module's
name, ``Path(__file__)…``, dotted names and paths in strings, comments, documents, settings and
scripts, and pytest's ``pythonpath``; pages made from the source are made anew. At the end the syntax trees before and after are compared:
anything but those changes is an error and nothing is committed.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import textwrap
import time
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

TOPS = ("portal", "spawners", "kernels", "tests", "docs", "deploy")
WIDTH = 100  # ruff's line-length
TEXT = (".md", ".toml", ".txt", ".sh", ".service", ".timer", ".js", ".ts", ".html", ".css", ".def",
        ".yaml", ".yml", ".in", ".cfg", ".ini", ".json", ".ipynb", ".conf", ".tpl")
PLAIN = ("Makefile", "sudoers", "run", ".gitignore")
HOMES = ("tests",)  # modules there are imported by their bare names, over pytest's pythonpath


# -- the mapping ----------------------------------------------------------------------------------


@dataclass
class Mapping:
    """What one mapping file says."""

    title: str = ""
    body: str = ""
    moves: dict[str, str] = field(default_factory=dict)
    folders: list[tuple[str, str]] = field(default_factory=list)
    rooms: dict[str, str] = field(default_factory=dict)
    keeps: dict[str, list[str]] = field(default_factory=dict)
    stay: set[str] = field(default_factory=set)
    sorts: list[str] = field(default_factory=list)
    edits: list[tuple[str, str, str]] = field(default_factory=list)


def read_mapping(path: Path) -> Mapping:
    """Return what the file says; exits with a sentence where a line cannot be read."""
    found = Mapping()
    lines = path.read_text().splitlines()
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if not line or line.startswith("#"):
            continue
        if line.startswith("title:"):
            found.title = line[6:].strip()
        elif line.startswith("body:"):
            found.body += line[5:].strip() + "\n"
        elif line.startswith("room "):
            folder, _, words = line[5:].partition(":")
            found.rooms[folder.strip().rstrip("/")] = words.strip()
        elif line.startswith("keep "):
            file, _, names = line[5:].partition(":")
            found.keeps[file.strip()] = [name.strip() for name in names.split(",")]
        elif line.startswith("stay "):
            found.stay.update(line[5:].split())
        elif line.startswith("sort "):
            found.sorts.append(line[5:].strip())
        elif line.startswith("edit "):
            file = line[5:].strip()
            while at < len(lines) and lines[at].strip() == "<<<<":
                middle = lines.index("====", at)
                end = lines.index(">>>>", middle)
                old = "\n".join(lines[at + 1 : middle])
                found.edits.append((file, old, "\n".join(lines[middle + 1 : end])))
                at = end + 1
        elif " -> " in line:
            old, _, new = line.partition(" -> ")
            old, new = old.strip(), new.split("#")[0].strip()
            if old.endswith("/"):
                found.folders.append((old, new))
            else:
                found.moves[old] = new
        else:
            sys.exit(f"{path}: cannot read: {line}")
    return found


# -- the repository -------------------------------------------------------------------------------


class Repository:
    """The files that git knows, and which module is which file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = self.git("ls-files").split("\n")
        self.files = [file for file in self.files if file and (root / file).is_file()]
        self.known = set(self.files)
        self.folders = {str(parent) for file in self.files for parent in PurePosixPath(file).parents}
        settings = tomllib.loads((root / "pyproject.toml").read_text())
        options = settings["tool"]["pytest"]["ini_options"]
        self.roots: list[str] = options.get("pythonpath", ["."])

    def git(self, *words: str, given: str | None = None) -> str:
        for _ in range(20):
            done = subprocess.run(
                ["git", "-C", self.root, *words], input=given, capture_output=True, text=True
            )
            if "index.lock" not in done.stderr:
                break
            time.sleep(0.5)  # somebody else looks at this work tree
        if done.returncode:
            sys.exit(f"git {' '.join(words)}: {done.stderr}")
        return done.stdout

    def python(self) -> list[str]:
        return [file for file in self.files if file.endswith(".py")]

    def texts(self) -> Iterator[str]:
        for file in self.files:
            name = PurePosixPath(file).name
            if not file.endswith(".py") and (name.endswith(TEXT) or name in PLAIN or "." not in name):
                yield file

    def at(self, root: str, dotted: str) -> str | None:
        """Return the file of a module below a root of imports, or None; a folder without
        ``__init__.py`` is "FOLDER/"."""
        path = dotted.replace(".", "/")
        path = path if root == "." else f"{root}/{path}"
        for file in (f"{path}/__init__.py", f"{path}.py"):
            if file in self.known:
                return file
        return f"{path}/" if path in self.folders else None

    def find(self, dotted: str, beside: str) -> tuple[str, str] | None:
        """Return root and file of a module as ``beside`` (a file) would import it."""
        here = str(PurePosixPath(beside).parent)
        spaces = None
        for root in [*self.roots, here]:
            file = self.at(root, dotted)
            if file and not file.endswith("/"):
                return root, file
            if file and spaces is None and (root == "." or root == "kernels"):
                spaces = root, file
        return spaces


def dotted_of(path: str, root: str = ".") -> str:
    """Return the module's name of a file below a root of imports."""
    path = path if root == "." else path.removeprefix(f"{root}/")
    parts = path.removesuffix("/").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# -- rewriting ------------------------------------------------------------------------------------


class Move:
    """One mapping on its way through the repository."""

    def __init__(self, repository: Repository, mapping: Mapping) -> None:
        self.repo, self.mapping = repository, mapping
        self.notes: list[str] = []
        self.strings: list[str] = []
        self.moves: dict[str, str] = {}
        for old, new in mapping.moves.items():
            if old not in repository.known:
                self.notes.append(f"skipped, not there: {old}")
            elif new in repository.known and new not in mapping.moves:
                self.notes.append(f"skipped, the target is there already: {old} -> {new}")
            elif old != new:
                self.moves[old] = new
        for old, new in mapping.folders:
            below = [file for file in repository.files if file.startswith(old)]
            if not below:
                self.notes.append(f"skipped, not there: {old}")
            for file in below:
                if file not in mapping.moves and file not in mapping.stay:
                    self.moves[file] = new + file.removeprefix(old)
        doubles = [new for new in self.moves.values() if list(self.moves.values()).count(new) > 1]
        if doubles:
            sys.exit(f"several files would become one: {sorted(set(doubles))}")
        self._name_unknown()
        self.keeps = {old: names for old, names in mapping.keeps.items() if old in self.moves}
        self.dirs = self._moved_folders()
        self.after = (repository.known - set(self.moves)) | set(self.moves.values())
        self.after |= set(self.keeps)
        self.homes_after = list(repository.roots)
        self._find_homes()
        self.modules = {  # for dotted names in texts; the root "." alone
            dotted_of(old): dotted_of(new) for old, new in self.moves.items() if old.endswith(".py")
        }

    def _name_unknown(self) -> None:
        """Name what lies beside the moved files and is not in the mapping."""
        homes = {str(PurePosixPath(old).parent) for old in self.mapping.moves}
        known = {*self.mapping.moves, *self.mapping.stay, *self.moves}
        for file in self.repo.python():
            if str(PurePosixPath(file).parent) in homes and file not in known:
                if not file.endswith("/__init__.py"):
                    self.notes.append(f"not in the mapping, stays: {file}")

    def _moved_folders(self) -> dict[str, str]:
        """Return the folders of which nothing stays, and where most of their files went by the
        same names."""
        found = {}
        for folder in sorted(self.repo.folders):
            below = [file for file in self.repo.files if file.startswith(f"{folder}/")]
            if not below or not all(file in self.moves for file in below):
                continue
            news = []
            for file in below:
                rest = file.removeprefix(f"{folder}/")
                new = self.moves[file]
                news.append(new.removesuffix(f"/{rest}") if new.endswith(f"/{rest}") else "")
            most = max(sorted(set(news)), key=news.count)
            if most and news.count(most) * 2 > len(news):
                found[folder] = most
        return found

    def new_path(self, path: str) -> str:
        """Return where a file or folder ("FOLDER/" or "FOLDER") is afterwards."""
        if path in self.moves:
            return self.moves[path]
        bare = path.rstrip("/")
        for old, new in sorted(self.dirs.items(), key=lambda pair: -len(pair[0])):
            if bare == old or bare.startswith(f"{old}/"):
                return new + path[len(old) :]
        return path

    # -- homes of bare names: pytest's pythonpath

    def _find_homes(self) -> None:
        """Find the folders that must be in ``pythonpath`` so that bare names of tests go on."""
        needed, used = set(), set()
        for file in self.repo.python():
            if not file.startswith(HOMES):
                continue
            for name in _bare_imports((self.repo.root / file).read_text()):
                found = self.repo.find(name, file)
                if not found or found[0] in (".", "kernels") or not found[1].startswith(HOMES):
                    continue
                if found[0] not in self.repo.roots:  # its own folder, by a change of sys.path
                    continue
                new = self.new_path(found[1])
                needed.add(str(PurePosixPath(new).parent))
                used.add((name, new))
        always = {".", "kernels", "tests"}
        self.homes_after = [
            root for root in self.repo.roots if root in always or root in needed
        ] + sorted(needed - set(self.repo.roots))
        for name, new in sorted(used):
            stem = PurePosixPath(new).stem
            for root in self.homes_after:
                file = stem + ".py" if root == "." else f"{root}/{stem}.py"
                if file in self.after:
                    if file != new:
                        self.notes.append(f"BARE NAME {stem}: {file} comes before {new}")
                    break

    def new_dotted(self, root: str, file: str) -> str:
        """Return a module's name afterwards, as seen from a root of imports before."""
        new = self.new_path(file)
        if root == "." or root == "kernels":
            return dotted_of(new, root)
        best = ""
        for home in self.homes_after:
            if home != "." and new.startswith(f"{home}/") and len(home) > len(best):
                best = home
        return dotted_of(new, best or ".")

    # -- texts: dotted names and paths

    _PATH = re.compile(r"(?<![\w./@%-])(?:[\w.-]+/)+(?:[\w.*-]+)?")
    _DOTTED = re.compile(r"(?<![\w.\-/@])(?:portal|spawners|tests|docs)(?:\.\w+)+")
    _FROM = re.compile(
        r"\bfrom (?P<base>(?:portal|spawners|tests)(?:\.\w+)*) import (?P<names>\w+(?:, \w+)*)"
    )

    def text(self, text: str) -> str:
        """Return a text with paths and dotted names as they are afterwards."""
        text = self._FROM.sub(self._from, text)
        text = self._DOTTED.sub(self._dotted, text)
        return self._PATH.sub(self._path, text)

    def _from(self, match: re.Match[str]) -> str:
        names = match["names"].split(", ")
        base = match["base"]
        changed = [name for name in names if f"{base}.{name}" in self.modules]
        if changed and len(names) == 1:
            parent, _, last = self.modules[f"{base}.{names[0]}"].rpartition(".")
            return f"from {parent} import {last}"
        if changed:
            self.notes.append(f"by hand: {match[0]}")
        elif base in self.modules:
            kept = self.keeps.get(_file_of(base, self.moves), [])
            if all(name in kept for name in names):
                return match[0].replace(base, f"\0{base}\0")  # _dotted leaves it alone
        return match[0]

    def _dotted(self, match: re.Match[str]) -> str:
        words = match[0].split(".")
        if match.string[match.start() - 1 : match.start()] == "\0":
            return match[0]
        for end in range(len(words), 1, -1):
            module = ".".join(words[:end])
            if module in self.modules:
                kept = self.keeps.get(_file_of(module, self.moves), [])
                if end < len(words) and words[end] in kept:
                    return match[0]
                return ".".join([self.modules[module], *words[end:]])
        return match[0]

    def _path(self, match: re.Match[str]) -> str:
        word = match[0]
        bare = word.rstrip(".")
        tail = word[len(bare) :]
        if bare in self.moves:
            return self.moves[bare] + tail
        new = self.new_path(bare)
        return new + tail

    def whole_text(self, text: str) -> str:
        return self.text(text).replace("\0", "")

    def prose(self, text: str, file: str, aliases: tuple[str, ...] = ()) -> str:
        """Return a comment, docstring or document: there, names of files may also be relative to
        the folder of the file or to those above it."""
        text = self.whole_text(text)
        here = PurePosixPath(file).parent
        bases = [str(here), *(str(parent) for parent in here.parents), *aliases]

        def short(match: re.Match[str]) -> str:
            word = match[0]
            if word in self.moves:
                return word
            for base in bases:
                old = word if base == "." else f"{base}/{word}"
                if old in self.repo.known:
                    new = self.moves.get(old)
                    if new is None:
                        return word
                    return self._short(old, new, word, file)
            return word

        return re.sub(r"(?<![\w./*-])(?:[\w-]+/)*[\w-]+\.py\b", short, text)

    def _short(self, old: str, new: str, word: str, file: str) -> str:
        now = str(PurePosixPath(self.new_path(file)).parent)
        if str(PurePosixPath(new).parent) == now and "/" not in word:
            return PurePosixPath(new).name
        base = old.removesuffix(word)  # "portal/" for what a document calls courses/desk.py
        if file.endswith(".md") and new.startswith(base):
            return new.removeprefix(base)
        return new

    # -- one Python file

    def python(self, file: str) -> str | None:
        """Return the new source of a file, or None where nothing changes."""
        source = (self.repo.root / file).read_text()
        edited = Source(self, file, source).edited()
        return None if edited == source and file not in self.moves else edited


def _file_of(module: str, moves: dict[str, str]) -> str:
    path = module.replace(".", "/")
    return f"{path}.py" if f"{path}.py" in moves else f"{path}/__init__.py"


def _bare_imports(source: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return {name for name in names if name.split(".")[0] not in ("portal", "spawners", "tests")}


class Source:
    """One Python file while it is rewritten. Positions are in bytes, as ast counts them."""

    def __init__(self, move: Move, file: str, source: str) -> None:
        self.move, self.file, self.source = move, file, source
        self.new = move.new_path(file)
        self.data = source.encode()
        self.tree = ast.parse(source, file)
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.edits: list[tuple[int, int, str]] = []
        self.renamed: dict[str, str] = {}
        self.taken: list[tuple[int, int]] = []  # places of path expressions

    def edited(self) -> str:
        self._imports()
        self._paths()
        self._texts()
        data = self.data
        for start, end, text in sorted(self.edits, reverse=True):
            data = data[:start] + text.encode() + data[end:]
        result = data.decode()
        if result != self.source:
            result = rewrapped(result, self.source)
            self._verify(result)
        return result

    def place(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self.starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    # imports

    def _package(self, file: str) -> list[str]:
        return list(PurePosixPath(file).parent.parts)

    def _imports(self) -> None:
        plans = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                plans.append(self._import_from(node))
            elif isinstance(node, ast.Import):
                plans.append(self._import(node))
        for node, statements in [plan for plan in plans if plan]:
            start, end = self.place(node)
            indent = " " * node.col_offset
            text = f"\n{indent}".join(one.replace("\n", f"\n{indent}") for one in statements)
            old = self.data[start:end].decode()
            if sorted(re.findall("#.*", old)) != sorted(re.findall("#.*", text)):
                self.move.notes.append(f"LOOK AT THE COMMENTS of an import: {self.file}: {old}")
            self.edits.append((start, end, text))

    def _import_from(self, node: ast.ImportFrom) -> tuple[ast.AST, list[str]] | None:
        if node.level:
            package = self._package(self.file)
            package = package[: len(package) - (node.level - 1)]
            base = ".".join([*package, *([node.module] if node.module else [])])
            root = "."
            if package[:1] == ["kernels"]:
                return None
        else:
            base = node.module or ""
            found = self.move.repo.find(base, self.file)
            if found is None:
                return None
            root = found[0]
            if root not in self.move.repo.roots:  # beside this file, as for a program
                if PurePosixPath(self.move.new_path(found[1])).parent != PurePosixPath(self.new).parent:
                    self.move.notes.append(f"by hand: {self.file}: from {base} import …")
                return None
        groups: dict[str, list[str]] = {}
        changed = False
        for alias in node.names:
            file = self.move.repo.at(root, f"{base}.{alias.name}") if alias.name != "*" else None
            if file:  # a module
                new = self.move.new_dotted(root, file)
                parent, _, last = new.rpartition(".")
                changed |= new != f"{base}.{alias.name}"
                if last == alias.name:
                    words = alias.name + (f" as {alias.asname}" if alias.asname else "")
                elif alias.asname:
                    words = f"{last} as {alias.asname}" if last != alias.asname else last
                else:
                    words = self._rename(node, alias.name, last)
                if not parent:
                    raise SystemExit(f"{self.file}: {last} has no parent")
                groups.setdefault(self._from_words(node, parent), []).append(words)
            else:
                whole = self.move.repo.at(root, base)
                if whole is None:
                    return None
                new = self.move.new_dotted(root, whole)
                changed |= new != base
                words = alias.name + (f" as {alias.asname}" if alias.asname else "")
                groups.setdefault(self._from_words(node, new), []).append(words)
        same_place = self._package(self.file) == self._package(self.new)
        before = ("." * node.level) + (node.module or "")
        if not changed and (same_place or list(groups) == [before]):
            return None
        comments = self._comments_inside(node)
        if not comments:
            return node, [f"from {module} import {', '.join(n)}" for module, n in groups.items()]
        statements = []
        for module, names in groups.items():
            lines = []
            for words in names:
                above, beside = comments.pop(words.split(" ")[0], None) or comments.pop(
                    self.renamed.get(words.split(" ")[0], ""), ([], "")
                )
                lines += [*above, f"{words},  {beside}" if beside else f"{words},"]
            inside = "".join(f"\n    {line}" for line in lines)
            statements.append(f"from {module} import ({inside}\n)")
        return node, statements

    def _comments_inside(self, node: ast.ImportFrom) -> dict[str, tuple[list[str], str]]:
        """Return the comments in an import of several lines: above and beside each name."""
        start, end = self.place(node)
        text = self.data[start:end].decode()
        if "#" not in text:
            return {}
        lines = self.source.splitlines()
        found: dict[str, tuple[list[str], str]] = {}
        for alias in node.names:
            beside = lines[alias.lineno - 1].partition("#")[2]
            above: list[str] = []
            at = alias.lineno - 2
            while at >= node.lineno and lines[at].strip().startswith("#"):
                above.insert(0, lines[at].strip())
                at -= 1
            if above or beside:
                found[alias.name] = (above, f"#{beside}" if beside else "")
        return found

    def _from_words(self, node: ast.ImportFrom, module: str) -> str:
        """Return the module of an import in the project's form: relative inside of a room,
        absolute from one room of the portal to another unless that was relative and stays short."""
        target, package = module.split("."), self._package(self.new)
        if target[0] != package[0] or target[0] not in ("portal", "spawners", "tests"):
            return module
        common = 0
        while common < min(len(target), len(package)) and target[common] == package[common]:
            common += 1
        level = len(package) - common + 1
        relative = "." * level + ".".join(target[common:])
        rooms = 1 if target[0] == "spawners" else 2
        same_room = common >= rooms
        was_same_room = self._was_same_room(node, rooms)
        if node.level == 0:
            return relative if same_room and not was_same_room else module
        if same_room or level <= max(node.level, 2 if package != self._package(self.file) else 0):
            return relative
        return module

    def _was_same_room(self, node: ast.ImportFrom, rooms: int) -> bool:
        package = self._package(self.file)
        if node.level:
            return len(package) - node.level + 1 >= rooms
        return (node.module or "").split(".")[:rooms] == package[:rooms]

    def _import(self, node: ast.Import) -> tuple[ast.AST, list[str]] | None:
        words, changed = [], False
        for alias in node.names:
            found = self.move.repo.find(alias.name, self.file)
            new = self.move.new_dotted(*found) if found else alias.name
            if found and found[0] not in self.move.repo.roots:
                new = alias.name
            changed |= new != alias.name
            if new == alias.name:
                words.append(alias.name + (f" as {alias.asname}" if alias.asname else ""))
            elif alias.asname:
                words.append(f"{new} as {alias.asname}")
            elif "." not in alias.name and "." not in new:
                words.append(self._rename(node, alias.name, new))
            else:
                words.append(new)
                self._chains(alias.name, new)
        return (node, [f"import {', '.join(words)}"]) if changed else None

    def _chains(self, old: str, new: str) -> None:
        """Rename ``a.b.c`` in expressions after ``import a.b.c``."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == old:
                start, end = self.place(node)
                self.edits.append((start, end, new))

    # names of renamed modules

    def _rename(self, node: ast.AST, old: str, new: str) -> str:
        """Plan that a module's name becomes ``new`` in this file; return the words to import it
        with, which are "new as old" where ``new`` means something else here."""
        scopes = Scopes(self.tree)
        others = scopes.bindings(old, without=node)
        inside = scopes.scope_of(node)
        if scopes.uses(new) or any(scope is inside for scope in others):
            self.move.notes.append(f"kept by 'as': {self.file}: {new} as {old}")
            return f"{new} as {old}"
        for name in scopes.loads(old, inside):
            start, end = self.place(name)
            if self.data[start:end] == old.encode():
                self.edits.append((start, end, new))
            else:
                self.move.notes.append(f"CANNOT RENAME {old} in {self.file}:{name.lineno}")
        self.renamed[new] = old
        return new

    # Path(__file__)

    def _paths(self) -> None:
        if "__file__" not in self.source:
            return
        constants: dict[str, ast.expr] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                if isinstance(node.targets[0], ast.Name):
                    constants[node.targets[0].id] = node.value
        self._constants = constants
        self._walk_paths(self.tree)

    def _walk_paths(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            value = path_of(node, self.file, self._constants)
            if value is not None and _names_file(node, self._constants):
                self._path_expression(node, value)
                return
        for child in ast.iter_child_nodes(node):
            self._walk_paths(child)

    def _path_expression(self, node: ast.expr, value: str) -> None:
        direct = any(isinstance(one, ast.Name) and one.id == "__file__" for one in ast.walk(node))
        base, tail = node, []
        while isinstance(base, ast.BinOp):
            base, tail = base.left, [base.right, *tail]
        new_value = self.move.new_path(value)
        start, end = self.place(node)
        if not direct:  # ROOT / "…": only what lies behind the name counts
            if new_value != value:
                anchor = path_of(base, self.file, self._constants)
                assert anchor is not None
                now = self.move.new_path(anchor)
                if not isinstance(base, ast.Name):
                    self.move.notes.append(f"by hand: {self.file}: {ast.unparse(node)}")
                    return
                rest = _relative(new_value, now)
                if rest is None:
                    self.move.notes.append(f"by hand: {self.file}: {ast.unparse(node)}")
                    return
                self._take(start, end, f'{base.id} / "{rest}"')
            return
        anchor = path_of(base, self.file, self._constants)
        assert anchor is not None
        if self.file == self.new and new_value == value:
            return
        resolve = ".resolve()" if ".resolve()" in ast.unparse(base) else ""
        start_base, end_base = self.place(base)
        if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
            if base.func.attr == "with_name":
                self._with_name(base, anchor, resolve)
                return
        if anchor == self.file:  # the file itself
            return
        now = self.move.new_path(anchor) if new_value != value else anchor
        if new_value == value or _relative(new_value, now) == _relative(value, anchor):
            text = _climb(self.new, now, resolve)
            if text != self.data[start_base:end_base].decode():
                old = path_of(base, self.new, {})
                if old != now:
                    self._take(start_base, end_base, text, paren=bool(tail))
            return
        self._take(start, end, _climb(self.new, new_value, resolve))

    def _with_name(self, node: ast.expr, value: str, resolve: str) -> None:
        start, end = self.place(node)
        target = self.move.new_path(value)
        if PurePosixPath(target).parent == PurePosixPath(self.new).parent:
            text = f'Path(__file__){resolve}.with_name("{PurePosixPath(target).name}")'
            if PurePosixPath(target).name != PurePosixPath(value).name:
                self._take(start, end, text)
            return
        self._take(start, end, _climb(self.new, target, resolve))

    def _take(self, start: int, end: int, text: str, paren: bool = False) -> None:
        del paren
        self.edits.append((start, end, text))
        self.taken.append((start, end))

    # strings and comments

    def _texts(self) -> None:
        notes = len(self.move.notes)
        unchanged = self.move.prose(self.source, self.file) == self.source
        del self.move.notes[notes:]
        if unchanged:
            return
        docstrings = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                docstrings.add(self.place(node.value)[0])
        lines = self.source.splitlines(keepends=True)
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type not in (tokenize.STRING, tokenize.COMMENT):
                continue
            line, column = token.start
            start = self.starts[line - 1] + len(lines[line - 1][:column].encode())
            end = start + len(token.string.encode())
            if any(start < stop and end > begin for begin, stop, _ in self.edits):
                continue
            if token.type == tokenize.COMMENT or start in docstrings:
                new = self.move.prose(token.string, self.file)
            else:
                new = self.move.whole_text(token.string)
            if new == token.string:
                continue
            whole = lines[line - 1].rstrip("\n")
            if (
                token.type == tokenize.COMMENT
                and whole[:column].strip()
                and len(whole) - len(token.string) + len(new) > WIDTH
                and not re.search("noqa|type:", new)
            ):  # too long beside the code: above it
                indent = whole[: len(whole) - len(whole.lstrip())]
                spaces = len(whole[:column]) - len(whole[:column].rstrip())
                self.edits.append((self.starts[line - 1],) * 2 + (f"{indent}{new}\n",))
                self.edits.append((start - spaces, end, ""))
            else:
                if token.type == tokenize.STRING and whole.strip().rstrip(",") == token.string:
                    new = split_string(new, column)
                self.edits.append((start, end, new))
            if True:
                self.move.strings.append(f"{self.file}:{line}: {token.string!r}\n    -> {new!r}")

    # proof

    def _verify(self, result: str) -> None:
        try:
            after = ast.parse(result)
        except SyntaxError as error:
            raise SystemExit(f"{self.file}: the result is no Python: {error}\n{result}") from error
        old = _normal(self.tree, self.file, {})
        new = _normal(after, self.new, self.renamed)
        if old != new:
            for one, other in zip(old.splitlines(), new.splitlines(), strict=False):
                if one != other:
                    raise SystemExit(f"{self.file}: something else has changed:\n{one}\n{other}")
            raise SystemExit(f"{self.file}: something else has changed")


def _relative(path: str, base: str) -> str | None:
    if base in (".", ""):
        return path
    return path.removeprefix(f"{base}/") if path.startswith(f"{base}/") else None


def _climb(file: str, target: str, resolve: str) -> str:
    """Return the expression for ``target`` (from the repository's root) in ``file``."""
    parents = [str(parent) for parent in PurePosixPath(file).parents]
    target = target.rstrip("/") or "."
    for number, parent in enumerate(parents):
        rest = _relative(target, parent) if target != parent else ""
        if rest is None:
            continue
        up = ".parent" if number == 0 else f".parents[{number}]"
        words = f"Path(__file__){resolve}{up}"
        return f'{words} / "{rest}"' if rest else words
    raise SystemExit(f"{target} is not below any parent of {file}")


def path_of(node: ast.expr, file: str, constants: dict[str, ast.expr]) -> str | None:
    """Return the path (from the repository's root) that an expression made of ``__file__`` is."""
    found = _path_of(node, file, constants, 0)
    return str(found) if isinstance(found, PurePosixPath) else None


def _path_of(
    node: ast.expr, file: str, constants: dict[str, ast.expr], depth: int
) -> PurePosixPath | None:
    def inner(one: ast.expr) -> PurePosixPath | None:
        return _path_of(one, file, constants, depth + 1)

    if depth > 12:
        return None
    if isinstance(node, ast.Name) and node.id in constants:
        return inner(constants[node.id])
    if isinstance(node, ast.Call):
        words = ast.unparse(node.func)
        if words == "Path" and len(node.args) == 1:
            if isinstance(node.args[0], ast.Name) and node.args[0].id == "__file__":
                return PurePosixPath(file)
            return None
        if isinstance(node.func, ast.Attribute):
            base = inner(node.func.value)
            if base is None:
                return None
            if node.func.attr in ("resolve", "absolute") and not node.args:
                return base
            if node.func.attr == "with_name" and isinstance(node.args[0], ast.Constant):
                return base.with_name(str(node.args[0].value))
        return None
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        base = inner(node.value)
        return base.parent if base is not None else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
            base = inner(node.value.value)
            parents = list(base.parents) if base is not None else []
            number = node.slice.value
            return parents[number] if isinstance(number, int) and number < len(parents) else None
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        base = inner(node.left)
        if base is not None and isinstance(node.right, ast.Constant):
            return base / str(node.right.value)
    return None


def _names_file(node: ast.expr, constants: dict[str, ast.expr]) -> bool:
    """Return whether the expression is more than a bare constant's name."""
    return not isinstance(node, ast.Name)


class _Normal(ast.NodeTransformer):
    def __init__(self, tree: ast.Module, file: str, renamed: dict[str, str]) -> None:
        self.file, self.renamed = file, renamed
        self.constants: dict[str, ast.expr] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.constants[node.targets[0].id] = node.value

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and not isinstance(node, ast.Name):
            if path_of(node, self.file, self.constants) is not None:
                return ast.Constant("PATH")
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                kept = [one for one in body if not isinstance(one, ast.Import | ast.ImportFrom)]
                setattr(node, name, kept or ([ast.Pass()] if body else []))
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self.renamed.get(node.id, node.id), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("TEXT") if isinstance(node.value, str) else node


def _normal(tree: ast.Module, file: str, renamed: dict[str, str]) -> str:
    import copy

    copied = copy.deepcopy(tree)
    return ast.unparse(ast.fix_missing_locations(_Normal(copied, file, renamed).visit(copied)))


class Scopes:
    """Which scope a name is bound in; enough of Python's rules for names of modules."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[int, ast.AST] = {}
        self._walk(tree, tree)
        self.nodes = list(ast.walk(tree))

    _SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef,
               ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

    def _walk(self, node: ast.AST, scope: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.parents[id(child)] = scope
            inner = child if isinstance(child, self._SCOPES) else scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                # Defaults, decorators and annotations of the result belong to the outside.
                for one in ast.iter_child_nodes(child):
                    outside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and (
                        one in child.decorator_list or one is child.returns
                    )
                    self.parents[id(one)] = scope if outside else child
                    self._walk(one, scope if outside else child)
                    if isinstance(one, ast.arguments):
                        for default in [*one.defaults, *one.kw_defaults]:
                            if default is not None:
                                self.parents[id(default)] = scope
                                self._walk(default, scope)
            else:
                self._walk(child, inner)

    def scope_of(self, node: ast.AST) -> ast.AST:
        return self.parents.get(id(node), self.tree)

    def bindings(self, name: str, without: ast.AST | None = None) -> list[ast.AST]:
        """Return the scopes that bind a name otherwise than by the import ``without``."""
        found = []
        for node in self.nodes:
            bound = (
                (isinstance(node, ast.Name) and node.id == name
                 and not isinstance(node.ctx, ast.Load))
                or (isinstance(node, ast.arg) and node.arg == name)
                or (isinstance(node, ast.ExceptHandler) and node.name == name)
                or (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                    and node.name == name)
                or (isinstance(node, ast.MatchAs | ast.MatchStar) and node.name == name)
            )
            if isinstance(node, ast.Import | ast.ImportFrom) and node is not without:
                bound = any((a.asname or a.name.split(".")[0]) == name for a in node.names)
            if bound:
                found.append(self.scope_of(node))
        return found

    def uses(self, name: str) -> bool:
        return bool(self.bindings(name)) or any(
            isinstance(node, ast.Name) and node.id == name for node in self.nodes
        )

    def loads(self, name: str, scope: ast.AST) -> list[ast.Name]:
        """Return the uses of a name that is bound in ``scope``."""
        binders = {id(one) for one in self.bindings(name)} | {id(scope)}
        found = []
        for node in self.nodes:
            if not isinstance(node, ast.Name) or node.id != name:
                continue
            at: ast.AST = self.scope_of(node)
            first = True
            while at is not self.tree and (
                id(at) not in binders or (isinstance(at, ast.ClassDef) and not first)
            ):
                first = False
                at = self.scope_of(at)
            if at is scope:
                found.append(node)
        return found


# -- long lines -----------------------------------------------------------------------------------


def rewrapped(text: str, before: str) -> str:
    """Return the source with comments and docstrings wrapped again where lines became too long."""
    known = set(before.splitlines())
    at = 0
    while at < len(lines := text.splitlines()):
        line = lines[at]
        at += 1
        if len(line) <= WIDTH or line in known:
            continue
        body = line.lstrip()
        indent = line[: len(line) - len(body)]
        mark = "# " if body.startswith("# ") else ""
        last = len(lines) if mark else _docstring_end(text, at)
        end = at
        while end < last and _goes_on(lines[end], indent, mark):
            end += 1
        if last < at:  # neither comment nor docstring
            continue
        block = [one[len(indent) :].removeprefix(mark) for one in lines[at - 1 : end]]
        wrapped = textwrap.wrap(
            " ".join(block),
            WIDTH - len(indent) - len(mark),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines[at - 1 : end] = [f"{indent}{mark}{one}" for one in wrapped]
        text = "\n".join(lines) + "\n"
    return text


def split_string(string: str, column: int) -> str:
    """Return a string that stands alone on its line as two, where it has become too long."""
    match = re.fullmatch(r"([a-zA-Z]*)([\"'])(.*)\2", string)
    if not match or column + len(string) + 1 <= WIDTH or "\n" in string:
        return string
    prefix, quote, inside = match.groups()
    at = WIDTH - column - len(prefix) - 3
    while at > 0 and not (
        inside[at] == " " and inside.count("{", 0, at) == inside.count("}", 0, at)
    ):
        at -= 1
    if at <= 0:
        return string
    rest = split_string(f"{prefix}{quote}{inside[at + 1 :]}{quote}", column)
    return f"{prefix}{quote}{inside[: at + 1]}{quote}\n{' ' * column}{rest}"


def _goes_on(line: str, indent: str, mark: str) -> bool:
    body = line[len(indent) :]
    if not line.startswith(indent) or not body.strip() or body.startswith((" ", "- ", "* ")):
        return False
    return body.startswith("# ") if mark else not body.startswith('"""')


def _docstring_end(text: str, line: int) -> int:
    """Return the last line of the docstring that has this line, or 0."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                if node.lineno <= line <= (node.end_lineno or 0):
                    return node.end_lineno or 0
    return 0


# -- the whole ------------------------------------------------------------------------------------


def run(root: Path, path: Path, options: argparse.Namespace) -> None:
    """Apply one mapping and commit it."""
    mapping = read_mapping(path)
    repo = Repository(root)
    move = Move(repo, mapping)
    print(f"== {path.name}: {len(move.moves)} files")
    results: dict[str, str] = {}
    for file in repo.python():
        new = move.python(file)
        if new is not None:
            results[move.new_path(file)] = new
    for file in repo.texts():
        try:
            old = (root / file).read_text()
        except UnicodeDecodeError:
            continue
        if file in ("CHANGELOG.md", "package-lock.json"):
            continue
        if file.endswith(".md"):
            new = _document(move, file, old)
        else:
            new = move.whole_text(old)
        if new != old or file in move.moves:
            results[move.new_path(file)] = new
    pyproject = results.get("pyproject.toml", (root / "pyproject.toml").read_text())
    homes = ", ".join(f'"{home}"' for home in move.homes_after)
    if move.homes_after != repo.roots:
        pyproject = re.sub(r"^pythonpath = \[.*?\]$", _homes(homes, move.homes_after), pyproject,
                           flags=re.M | re.S)
        results["pyproject.toml"] = pyproject
    _write(move, results, options)


def _homes(line: str, homes: list[str]) -> str:
    whole = f"pythonpath = [{line}]"
    if len(whole) <= 160:
        return whole
    return "pythonpath = [\n" + "".join(f'  "{home}",\n' for home in homes) + "]"


def _document(move: Move, file: str, text: str) -> str:
    """Return a document; a point of a list that begins with a folder of the portal, as those of
    the architecture page, means files of that folder."""
    parts = re.split(r"(?m)^(?=- )", text)
    done = []
    for part in parts:
        begins = re.match(r"- `([a-z_]+)/`", part)
        aliases = ["portal"]
        if begins:
            aliases.insert(0, f"portal/{begins[1]}")
        done.append(move.prose(part, file, tuple(aliases)))
    return _wrapped_document("".join(done), set(text.splitlines()))


def _wrapped_document(text: str, known: set[str]) -> str:
    """Return the document with those paragraphs wrapped again in which a line became too long."""
    lines, at, fenced = text.split("\n"), 0, False
    while at < len(lines):
        line = lines[at]
        fenced ^= line.lstrip().startswith("```")
        if fenced or len(line) <= 122 or line in known or line.lstrip().startswith(("|", "#", "```")):
            at += 1
            continue
        first = re.match(r"( *(?:- |\d+\. )?)", line)[1]
        indent = " " * len(first)
        end = at + 1
        while (
            end < len(lines)
            and lines[end].strip()
            and lines[end].startswith(indent)
            and not re.match(r" *(- |\d+\. |\||```|#)", lines[end])
            and not lines[end][len(indent) :].startswith(" ")
        ):
            end += 1
        words = " ".join([line[len(first) :], *(one.strip() for one in lines[at + 1 : end])])
        lines[at:end] = textwrap.wrap(
            words, 118, initial_indent=first, subsequent_indent=indent,
            break_long_words=False, break_on_hyphens=False,
        )
        at += 1
    return "\n".join(lines)


def _write(move: Move, results: dict[str, str], options: argparse.Namespace) -> None:
    root, repo = move.repo.root, move.repo
    for old, new in move.moves.items():  # in two steps: one may go where another comes from
        (root / old).rename(root / f"{old}.moving")
    for old, new in move.moves.items():
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{old}.moving").rename(root / new)
    for file, text in results.items():
        (root / file).write_text(text)
    made = []
    for old, names in move.keeps.items():
        module = dotted_of(move.moves[old]).split(".")
        package = list(PurePosixPath(old).parent.parts)
        rest = ".".join(module[len(package) :])
        each = ", ".join(f"{name} as {name}" for name in names)
        what = " and ".join(f"`{dotted_of(old)}.{name}`" for name in names)
        verb = "is the name" if len(names) == 1 else "are the names"
        (root / old).write_text(
            f'"""{what}, as sites\' configurations name {"it" if len(names) == 1 else "them"}."""\n\n'
            f"from .{rest} import {each}\n"
        )
        del verb
        made.append(old)
    for new in move.moves.values():
        for folder in PurePosixPath(new).parents:
            if folder.parts[:1] in (("portal",), ("spawners",)) and new.endswith(".py"):
                init = root / folder / "__init__.py"
                if not init.exists():
                    words = move.mapping.rooms.get(str(folder), "")
                    init.write_text(f'"""{words}"""\n' if words else "")
                    made.append(f"{folder}/__init__.py")
    touched = [*results, *made]
    for file, old, new in move.mapping.edits:
        place = root / file
        text = place.read_text() if place.exists() else None
        if text is None or old not in text:
            move.notes.append(f"EDIT DOES NOT FIT: {file}: {old.strip()[:60]}")
            continue
        place.write_text(text.replace(old, new))
        touched.append(file)
    for file in move.mapping.sorts:
        if (root / file).exists():
            text = (root / file).read_text()
            (root / file).write_text(_sorted(text))
            touched.append(file)
    python = sorted({file for file in touched if file.endswith(".py")})
    for words in (["check", "-q", "--select", "I", "--fix"], ["format", "-q"]):
        if python and options.ruff:
            subprocess.run([options.ruff, *words, *python], cwd=root, check=False)
    if options.python:  # the pages that are made from the source (make docs)
        done = subprocess.run(
            [options.python, "-m", "docs.reference"], cwd=root, capture_output=True, text=True
        )
        touched += ["docs/reference/settings.md", "docs/reference/rest-api.md"]
        if done.returncode:
            move.notes.append(f"MAKE DOCS FAILED: {done.stderr[-2000:]}")
    for folder, _ in move.mapping.folders:
        _prune(root / folder)
    for old in move.moves:
        _prune((root / old).parent)
    if options.ruff and python:
        done = subprocess.run(
            [options.ruff, "check", "--output-format=concise", *python], cwd=root,
            capture_output=True, text=True,
        )
        move.notes += [f"RUFF {line}" for line in done.stdout.splitlines() if ".py:" in line]
    print("\n".join(f"   {note}" for note in dict.fromkeys(move.notes)))
    if options.log:
        options.log.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", move.mapping.title)[:40]
        (options.log / f"{name}.strings").write_text("\n".join(move.strings) + "\n")
    paths = sorted({*touched, *move.moves, *move.moves.values()})
    repo.git("add", "-A", "--pathspec-from-file=-", given="\n".join(paths) + "\n")
    if not options.no_commit and repo.git("status", "--porcelain").strip():
        message = f"{move.mapping.title}: no logic changed"
        words = ["commit", "-q", "-m", message]
        if move.mapping.body.strip():
            words += ["-m", textwrap.fill(move.mapping.body.strip(), 100)]
        repo.git(*words)


def _prune(folder: Path) -> None:
    """Remove a folder that holds nothing any more but bytecode."""
    import shutil

    if not folder.is_dir():
        return
    rest = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    if not rest:
        shutil.rmtree(folder)


def _sorted(text: str) -> str:
    """Return the text with each run of lines that begin with a path in quotes in order."""
    path = re.compile(r'^\s*"[\w/.-]+\.py"')
    lines, done, run_ = text.split("\n"), [], []
    for line in [*lines, "\0"]:
        if path.match(line):
            run_.append(line)
            continue
        done += sorted(run_)
        run_ = []
        done.append(line)
    return "\n".join(done[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("maps", nargs="+", type=Path)
    parser.add_argument("--repo", type=Path, default=Path.cwd())
    parser.add_argument("--no-commit", action="store_true")
    parser.add_argument("--ruff", default="/var/lib/data-scientist-portal/venv/bin/ruff")
    parser.add_argument("--log", type=Path)
    parser.add_argument(
        "--python", default="/var/lib/data-scientist-portal/venv/bin/python",
        help="that of the portal's virtual environment, for `make docs`; empty: without it",
    )
    options = parser.parse_args()
    if not os.path.exists(options.python):
        options.python = ""
        print("no virtual environment: run `make docs` yourself")
    if not os.path.exists(options.ruff):
        options.ruff = ""
        print("no ruff: imports are not sorted; run ruff before the next step")
    for path in options.maps:
        run(options.repo.resolve(), path, options)


if __name__ == "__main__":
    main()
