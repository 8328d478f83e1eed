"""The metric that counts by the rule of the pages (goals.js, in Node) and that of the service."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from portal.models.session.search import Search
from portal.paths import data_path
from portal.work.run.results.list_best import own_metric

SCRIPT = """import { searchedGoal, usualGoal, usualMetric } from "./goals.js";
const [names, search] = JSON.parse(process.argv[2]);
const metric = usualMetric(names, [search]);
console.log(JSON.stringify([metric, searchedGoal(metric, [search]) ?? usualGoal(metric)]));
"""
SEARCH = {
    "parameters": [{"kind": "float", "name": "lr", "low": 0.1, "high": 1.0}],
    "metric": "reward",
    "direction": "minimize",
    "seed": 1,
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rule as a browser has it, and a script that asks for it."""
    place = tmp_path_factory.mktemp("goals")
    for name in ("axes.js", "goals.js"):
        shutil.copy(Path(data_path("static")) / "js/run" / name, place)
    (place / "package.json").write_text('{"type": "module"}')
    (place / "ask.js").write_text(SCRIPT)
    return place


@pytest.mark.parametrize(
    ("names", "search"),
    [
        ([], None),
        (["epoch", "step"], None),
        (["step", "time"], None),
        (["time", "val_accuracy"], None),
        (["f1", "recall"], None),
        (["auc", "train_loss"], None),
        (["accuracy_error"], None),
        (["IoU", "tokens_per_s"], None),
        (["loss", "reward"], SEARCH),
        (["loss", "reward"], {**SEARCH, "direction": "maximize"}),
        (["reward"], SEARCH),
    ],
)
def test_pages_and_lists_choose_the_same(
    scripts: Path, names: list[str], search: dict[str, Any] | None
) -> None:
    node = shutil.which("node")
    assert node, "node is missing (deploy/packages-run.txt)"
    words = [node, str(scripts / "ask.js"), json.dumps([names, search])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    own = own_metric(names, None if search is None else Search.model_validate(search))
    metric, lowest = own or ("", True)
    assert json.loads(done.stdout) == [metric, "lowest" if lowest else "highest"]
