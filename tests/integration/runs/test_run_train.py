"""``train()`` in a cell: the function travels to the ranks, and its result or error comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from portal_session.kernels.environment import LIBRARY

# portal-run, played: it executes the script at once, as two ranks.
PROGRAM = """#!{python}
import json, os, subprocess, sys
from pathlib import Path
home = Path.home()
(home / "asked.json").write_text(json.dumps(sys.argv[1:]))
if "--gpus=99" in sys.argv:
    sys.exit("portal-run: There are no nodes with 99 GPUs.")
script = Path(sys.argv[1])
place = home / "runs" / script.stem
point = place / "0000"
point.mkdir(parents=True)
failed = None
for rank in "10":
    log = (point / ("output.log" if rank == "0" else "rank-1.log")).open("wb")
    more = dict(RANK=rank, PORTAL_ATTEMPT=str(point))
    environ = dict(os.environ, **more)
    code = subprocess.call([sys.executable, script], stdout=log, stderr=log, env=environ)
    failed = failed or (rank if code else None)
message = f"Rank {{failed}} on gpu02: it failed" if failed else ""
state = "failed" if failed else "succeeded"
(point / "manifest.json").write_text(json.dumps(dict(state=state, message=message)))
print(f"Run '{{script.stem}}': 1 point, at most 10 at once.")
print(f"Results: {{place}}")
"""
CELL = """
import os
from portal_train import train
factor = 20
def fit(x):
    print("rank", os.environ["RANK"])
    return {"value": x * factor, "at": os.getcwd()}
print(train(fit, 2, nodes=2, gpus=4, gpu_type="v100"))
"""
FAILING = """
import os
from portal_train import train
class Unfit(ValueError):
    pass
def fit():
    if os.environ["RANK"] == "1":
        raise Unfit("no data")
try:
    train(fit, nodes=2)
except Unfit as error:
    print("caught", error, "/", error.__cause__)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/portal-run"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    return tmp_path


def said(home: Path, cell: str) -> str:
    """Execute a cell; return what it prints."""
    environ = {
        "HOME": str(home),
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(LIBRARY),
    }
    done = subprocess.run(
        [sys.executable, "-c", cell],
        capture_output=True, text=True, check=False, env=environ, cwd=home / "work",
    )  # fmt: skip
    return done.stdout + done.stderr


def test_the_result_of_rank_0_comes_back(home: Path) -> None:
    assert said(home, CELL) == f"rank 0\n{{'value': 40, 'at': '{home}/work'}}\n"
    asked = (home / "asked.json").read_text()
    assert all(option in asked for option in ("--nodes=2", "--gpus=4", "--gpu-type=v100"))
    assert (home / ".portal/train").stat().st_mode & 0o777 == 0o700


def test_the_error_of_the_failing_rank_comes_back(home: Path) -> None:
    assert said(home, FAILING) == "caught no data / Rank 1 on gpu02: it failed\n"


def test_a_refusal_is_one_sentence(home: Path) -> None:
    cell = CELL.replace("gpus=4", "gpus=99")
    assert said(home, cell).endswith("RankError: portal-run: There are no nodes with 99 GPUs.\n")


def test_data_that_are_too_large_are_refused(home: Path) -> None:
    cell = CELL.replace("factor = 20", "import random; factor = random.randbytes(9 * 1024 * 1024)")
    assert "Write the data to a file" in said(home, cell)
    assert not (home / "asked.json").exists()


def test_a_result_that_others_may_write_is_not_read(home: Path) -> None:
    cell = CELL.replace("return {", "os.umask(0)\n    return {").replace(
        "print(train(", "import portal_train\nkeep = portal_train._own\n"
        "portal_train._own = lambda path: (os.chmod(path, 0o666), keep(path))[1]\nprint(train("
    )  # fmt: skip
    assert "is not a file that only you may write" in said(home, cell)


def test_without_cloudpickle_it_says_so(home: Path) -> None:
    cell = f"import sys\nsys.modules['cloudpickle'] = None\n{CELL}"
    assert "pip install cloudpickle" in said(home, cell)


def test_outside_of_a_session_it_says_so(home: Path) -> None:
    (home / "bin/portal-run").unlink()
    cell = f"import os\nos.environ['PATH'] = {str(home / 'bin')!r}\n{CELL}"
    assert "works in a session of the portal" in said(home, cell)
