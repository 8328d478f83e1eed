#!/usr/bin/env python3
"""Name what still speaks of old places: python3 leftovers.py [--repo DIR] MAP..."""
import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from move import Repository, dotted_of, read_mapping

p = argparse.ArgumentParser(); p.add_argument("maps", nargs="+", type=Path); p.add_argument("--repo", type=Path, default=Path.cwd())
o = p.parse_args(); repo = Repository(o.repo.resolve())
old = {}
for m in o.maps:
    mapping = read_mapping(m)
    old |= mapping.moves
gone = {f for f in old if f not in repo.known}
words = {f: f for f in gone} | {dotted_of(f): f for f in gone if f.endswith(".py") and not f.startswith("tests/")}
words = {w: f for w, f in words.items() if repo.at(".", w.replace("/", ".")) is None}
keys = sorted(words, key=len, reverse=True)
pattern = re.compile(r"(?<![\w./-])(" + "|".join(map(re.escape, keys)) + r")(?![\w/])")
names = {Path(f).name for f in gone} - {Path(f).name for f in repo.files}
short = re.compile(r"(?<![\w.-])(" + "|".join(map(re.escape, sorted(names))) + r")\b")
for file in repo.files:
    if file == "CHANGELOG.md": continue
    try: text = (repo.root / file).read_text()
    except UnicodeDecodeError: continue
    for n, line in enumerate(text.splitlines(), 1):
        for hit in pattern.findall(line): print(f"{file}:{n}: {hit}: {line.strip()[:100]}")
        for hit in short.findall(line): print(f"{file}:{n}: (short) {hit}: {line.strip()[:100]}")
