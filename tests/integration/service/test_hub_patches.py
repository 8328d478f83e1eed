"""JupyterHub is changed by a call and not by imports, and the newest one that there is fits."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import checkout
import pytest

from portal.doctor.foreign_code import changed_parts
from spawners.hub_patches import PATCHES

# The tables of routes; batchspawner has the first under a name of its own, too.
_API = {"jupyterhub.apihandlers:default_handlers", "batchspawner.api:default_handlers"}
_PAGES = {"jupyterhub.handlers:default_handlers"}

_LOOK = """
import importlib, inspect, json, pkgutil, sys, warnings
from types import ModuleType

warnings.simplefilter("ignore")
import jupyterhub, batchspawner  # which adds its route by itself
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.event import registry
from sqlalchemy.orm import Mapper, Session
from sqlalchemy.pool import Pool

def load(package):
    for one in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not one.name.endswith(("__main__", ".env")):
            importlib.import_module(one.name)

def held(value):
    "What stands there; lists and dicts by what is in them."
    if isinstance(value, list):
        return [id(one[1]) if isinstance(one, tuple) and len(one) > 1 else id(one) for one in value]
    return id(value)

def look():
    seen = {}
    for name, module in {**sys.modules}.items():
        if name.split(".")[0] not in ("jupyterhub", "batchspawner"):
            continue
        for key, value in vars(module).items():
            seen[f"{name}:{key}"] = held(value)
            if inspect.isclass(value) and value.__module__ == name:
                for inner, attribute in vars(value).items():
                    if inner not in _CACHES:
                        seen[f"{name}:{key}.{inner}"] = held(attribute)
    of_all = {id(one) for one in (Engine, Connection, Pool, Session, Mapper)}
    listeners = [key for key in registry._key_to_collection if key[0] in of_all]
    seen["listeners of every engine"] = len(listeners)
    return seen

# What traitlets, abc and SQLAlchemy keep in classes once they are used.
_CACHES = {"_abc_impl", "__dict__", "__weakref__", "_trait_notifiers", "__doc__"}

load(jupyterhub)
before = look()
import spawners
load(spawners)
between = look()
from spawners.hub_patches import apply_patches
from spawners.api.routes import install_routes
apply_patches()
patched = look()
install_routes()
routed = look()
apply_patches()
install_routes()
again = look()

def changes(old, new):
    return sorted(key for key in {*old, *new} if key in old and old[key] != new.get(key)
                  or key not in old and "." in key.partition(":")[2])

print(json.dumps([changes(*pair) for pair in (
    (before, between), (between, patched), (patched, routed), (routed, again))]))
"""


@pytest.fixture(scope="module")
def steps() -> list[list[str]]:
    """Changes of JupyterHub by imports, by the patches, by the routes, and by all of that once
    more, in an interpreter in which nothing had been changed."""
    done = checkout.run(sys.executable, "-c", _LOOK)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_imports_change_nothing(steps: list[list[str]]) -> None:
    assert steps[0] == []


def test_the_patches_change_what_their_table_says(steps: list[list[str]]) -> None:
    told = {name for patch in PATCHES for name in patch.changes}
    changed = {name.removesuffix(".max_body") for name in steps[1]}
    assert changed - told == _API | _PAGES


def test_the_routes_are_added_to_the_hubs_api(steps: list[list[str]]) -> None:
    assert set(steps[2]) == _API


def test_a_second_time_nothing_is_left_to_do(steps: list[list[str]]) -> None:
    assert steps[3] == []


def test_the_patches_fit_the_newest_jupyterhub(tmp_path: Path) -> None:
    """Of the index, pre-releases too; where it has none that is newer, that is the installed one.
    The table has what each patch was written for."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--pre", "--quiet"]
    done = subprocess.run(
        [*command, "--only-binary=:all:", f"--dest={tmp_path}", "jupyterhub"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        pytest.skip(f"no index of packages has a JupyterHub: {done.stderr.strip()[-200:]}")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    changed = changed_parts(lambda package: tmp_path if package == "jupyterhub" else None)
    assert {part.name: why for part, why in changed} == {}, (
        f"{wheel.name}: look at the patches of these"
    )
