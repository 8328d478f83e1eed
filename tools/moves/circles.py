#!/usr/bin/env python3
"""Count files a folder and find circles between folders, before or after a mapping is applied.

    python3 circles.py [--repo DIR] [--room portal/store] [MAP...]

A file that lies directly in a room (portal/X, spawners) is a place of its own, a sub-folder is one
place. Imports under TYPE_CHECKING are left out, and shown beside with --types.
"""
from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from move import Repository, read_mapping


def imports(repo: Repository, file: str) -> list[tuple[str, bool, int]]:
    tree = ast.parse((repo.root / file).read_text())
    typed = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for part in node.body
        for one in ast.walk(part)
    }
    inner = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for one in ast.walk(node)
    }
    package = list(Path(file).parent.parts)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                start = package[: len(package) - node.level + 1]
                base = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            target = repo.at(".", name) or repo.at(".", name.rpartition(".")[0])
            if target and not target.endswith("/") and target != file:
                found.append((target, id(node) in typed or id(node) in inner, node.lineno))
    return found


def place(path: str) -> str:
    parts = path.split("/")
    depth = 1 if parts[0] == "spawners" else 2
    if len(parts) <= depth + 1:
        return path if not path.endswith("__init__.py") else "/".join(parts[:-1]) + "/__init__.py"
    return "/".join(parts[: depth + 1]) + "/"


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(one: str) -> None:
        index[one] = low[one] = len(index)
        stack.append(one)
        for other in edges.get(one, ()):
            if other not in index:
                visit(other)
                low[one] = min(low[one], low[other])
            elif other in stack:
                low[one] = min(low[one], index[other])
        if low[one] == index[one]:
            group = []
            while True:
                other = stack.pop()
                group.append(other)
                if other == one:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(5000)
    for one in sorted(edges):
        if one not in index:
            visit(one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("maps", nargs="*", type=Path)
    parser.add_argument("--repo", type=Path, default=Path.cwd())
    parser.add_argument("--room", default="")
    parser.add_argument("--types", action="store_true")
    parser.add_argument("--why", action="store_true")
    options = parser.parse_args()
    repo = Repository(options.repo.resolve())
    moves: dict[str, str] = {}
    for path in options.maps:
        mapping = read_mapping(path)
        moves |= mapping.moves
        for old, new in mapping.folders:
            for file in repo.files:
                if file.startswith(old) and file not in mapping.moves:
                    moves[file] = new + file.removeprefix(old)
    new = lambda file: moves.get(file, file)
    count = Counter(str(Path(new(f)).parent) for f in repo.python())
    for folder, number in sorted(count.items()):
        if folder.startswith(options.room or ("portal", "spawners", "tests")):
            print(f"{number:4} {folder}{'   <-- many' if number > 17 else ''}")
    real: dict[str, set[str]] = defaultdict(set)
    both: dict[str, set[str]] = defaultdict(set)
    why = defaultdict(list)
    for file in repo.python():
        if not file.startswith(("portal/", "spawners/")) or "/migrations/" in file:
            continue
        for target, typed, _ in imports(repo, file):
            a, b = place(new(file)), place(new(target))
            if a == b or (a.split("/")[:2] != b.split("/")[:2] and a.split("/")[0] == "portal" and not (
                a.startswith("spawners") and b.startswith("spawners"))):
                continue
            if a.split("/")[0] != b.split("/")[0]:
                continue
            why[a, b].append(f"{new(file)} -> {new(target)}{' (T)' if typed else ''}")
            both[a].add(b)
            if not typed:
                real[a].add(b)
    for label, edges in (("circles", real), *((("with types", both),) if options.types else ())):
        groups = circles(edges)
        print(f"{label}: {len(groups)}")
        for group in groups:
            if options.room and not group[0].startswith(options.room):
                continue
            print("   ", *group)
            if options.why:
                for a in group:
                    for b in group:
                        for line in why.get((a, b), ()):
                            if label != "circles" or "(T)" not in line:
                                print("        ", line)


if __name__ == "__main__":
    main()
