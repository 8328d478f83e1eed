"""The pages' scripts against the API's own document: TypeScript knows the answer of each call.

Types are generated from the document as the service hands it out (openapi-typescript), and the
scripts are checked with them as they are (`checkJs`): nothing is compiled.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import shared_cache

from portal.handlers.admin.openapi import document
from portal.handlers.routes import endpoints

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("package.json", "package-lock.json", ".npmrc")
TYPES = "build/types/api.d.ts"  # static/tsconfig.json names it


@pytest.fixture(scope="module")
def tools() -> Path:
    """npm's packages of the lock file, those that only check included."""
    digest = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in PACKAGES)).hexdigest()
    place = Path(shared_cache()) / "page-tools" / digest[:16]
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other runs share the cache
        if not (place / "made").exists():
            for name in PACKAGES:
                shutil.copy(ROOT / name, place)
            words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stdout + done.stderr
            (place / "made").touch()
    return place / "node_modules/.bin"


@pytest.fixture(scope="module")
def source(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the scripts, beside the types of the API's answers."""
    copy = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "static", copy / "static", ignore=shutil.ignore_patterns("vendor"))
    (copy / TYPES).parent.mkdir(parents=True)
    told = copy / "openapi.json"
    told.write_text(json.dumps(document(endpoints(), "/services/portal/")))
    words = [tools / "openapi-typescript", told, "-o", copy / TYPES]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy


# A field that is not there, one behind a name in the address, and an address that is not there.
WRONG = """import { call } from "./api.js";
const name = window.name;
call("board").then((board) => board.nodes && board.notes);
call(`courses/${name}/board`).then((board) => board.tiles && board.tails);
call("bored").then((board) => board.nodes);
"""


def test_the_scripts_use_what_the_api_answers(tools: Path, source: Path) -> None:
    """Nothing is wrong but what is put there to be found."""
    (source / "static/js/wrong.js").write_text(WRONG)
    words = [tools / "tsc", "-p", source / "static"]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True, timeout=600)
    found = (done.stdout + done.stderr).splitlines()
    assert [line.partition(",")[0] for line in found] == [
        "static/js/wrong.js(3",
        "static/js/wrong.js(4",
        "static/js/wrong.js(5",
    ], "\n".join(found)


def test_the_form_of_resources_has_one_source() -> None:
    """Pages and JupyterLab share it; a tool that writes through the link would leave a copy."""
    form = ROOT / "static/js/resources-form.js"
    assert form.is_symlink()
    assert form.resolve() == ROOT / "kernels/labextension/src/resources-form.js"
