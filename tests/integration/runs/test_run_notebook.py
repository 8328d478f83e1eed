"""Notebooks in runs, with real kernels: parameters, failures, stops, what is on disk meanwhile."""

from __future__ import annotations

import json
import re
import signal
import time

import psutil
import pytest
from portal_session.runs.frozen import code_digest
from run_site import (
    PlayedService,
    RunSite,
    manifest,
    outputs,
    printed,
    wait_until,
)


def test_three_points_of_which_one_fails(site: RunSite, service: PlayedService) -> None:
    site.script("NAMED = 'helper'\n", "helper.py")
    (site.work / "data.txt").write_text("beside the source")
    source = site.notebook(
        "import helper\nprint(open('data.txt').read(), helper.NAMED)",
        "from portal_metrics import log\nlog(loss=1 / lr, step=1)\nlog(loss=2 / lr)",
        "print(repr(name))\nassert lr < 3, 'too large'",
        "print('the end')",
        parameters="lr = 0.1  # the learning rate\nname = 'a'",
    )
    hostile = "\"''';\n\\ {x} import os"
    plan = site.plan(source, [{"lr": 1.0, "name": hostile}, {"lr": 4.0}, {}])
    frozen = (plan.folder / "source.ipynb").read_bytes()
    assert frozen == source.read_bytes()
    source.unlink()  # the run has its own copy
    codes = [site.execute(plan, number)[0] for number in range(3)]
    assert codes == [0, 1, 0]
    first, second = plan.folder / "0000", plan.folder / "0001"
    assert f"beside the source helper\n{hostile!r}\nthe end\n" in printed(first)
    assert "the end" not in printed(second)
    error = outputs(second)[4][-1]
    assert (error["ename"], error["evalue"]) == ("AssertionError", "too large")
    assert "assert lr < 3" in re.sub("\x1b\\[[0-9;]*m", "", "".join(error["traceback"]))
    for number, state in enumerate(["succeeded", "failed", "succeeded"]):
        last = service.last(number)
        assert (last["state"], last["job"], last["attempt"]) == (state, f"123_{number}", 1)
    assert service.last(1)["message"] == "AssertionError: too large (cell 5 of 6)"
    assert (service.last(0)["cell"], service.last(0)["cells"]) == (6, 6)
    assert service.last(2)["cells"] == 5, "nothing is injected into a point without values"
    assert service.last(0)["metrics"] == {"loss": 2.0, "step": 1.0}
    assert (plan.folder / "source.ipynb").read_bytes() == frozen
    about = manifest(first)
    assert about["parameters"] == {"lr": 1.0, "name": hostile}
    assert any(package.startswith("ipykernel==") for package in about["python"]["packages"])
    assert about["gpus"]["count"] == 0 and about["slurm"]["job"] == "123_0"
    assert about["state"] == "succeeded" and about["exit"] == 0
    assert about["started_at"] <= about["ended_at"]
    assert manifest(second)["message"].startswith("AssertionError: too large")


@pytest.mark.parametrize("seconds", [0.3, 1.5])
def test_the_end_of_a_notebook_is_the_end_of_its_job(site: RunSite, seconds: float) -> None:
    """Its last cell ends while the writer waits for it, and while it does not."""
    plan = site.plan(site.notebook("1", f"import time\ntime.sleep({seconds})"))
    began = time.monotonic()
    assert site.execute(plan)[0] == 0
    assert time.monotonic() - began < 20
    assert manifest(plan.folder / "0000")["state"] == "succeeded"


def test_the_kernel_has_no_secret_and_no_job(site: RunSite) -> None:
    source = site.notebook(
        "import os\nprint({k for k in os.environ if 'TOKEN' in k or k.startswith('SLURM_')})\n"
        "print(os.environ['PORTAL_RUN_NAME'], os.environ['PORTAL_RUN_POINT'])"
    )
    plan = site.plan(source)
    assert site.execute(plan)[0] == 0
    assert printed(plan.folder / "0000") == (
        "{'MLFLOW_TRACKING_TOKEN'}\ntrain 0\n"  # for metrics of this point only
    )


def test_the_notebook_grows_on_disk_and_a_stop_keeps_it(
    site: RunSite, service: PlayedService
) -> None:
    source = site.notebook(
        "print('first cell')",
        "import time\nfor step in range(600):\n    print('step', step, flush=True)\n"
        "    time.sleep(0.1)",
        "print('never')",
    )
    plan = site.plan(source)
    folder = plan.folder / "0000"
    process = site.begin(plan)
    wait_until(lambda: (folder / "output.ipynb").exists() and "step 5" in printed(folder), 30)
    assert "first cell" in printed(folder)
    assert manifest(folder)["state"] == "running"
    wait_until(lambda: any(report["cell"] == 2 for report in service.of_point(0)))
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert time.monotonic() - began < 10
    assert process.returncode == 143, said
    assert service.last(0)["state"] == "failed"
    assert service.last(0)["message"] == "The point was stopped (cell 2 of 3)"
    assert "The point was stopped" in printed(folder) and "never" not in printed(folder)
    assert manifest(folder)["exit"] == 143
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert left == []


def test_a_cell_that_saves_itself_has_slurms_time(site: RunSite, service: PlayedService) -> None:
    site.run = {"kill_wait": 10}
    saves = (
        "import pathlib, signal, time\n"
        "def save(*_):\n    time.sleep(2)\n    pathlib.Path('saved').touch()\n"
        "    raise RuntimeError('saved')\n"
        "signal.signal(signal.SIGTERM, save)\nprint('on', flush=True)\ntime.sleep(60)"
    )
    plan = site.plan(site.notebook(saves, "print('never')"))
    folder = plan.folder / "0000"
    process = site.begin(plan)
    wait_until(lambda: (folder / "output.ipynb").exists() and "on" in printed(folder), 30)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143 and (site.work / "saved").exists()
    assert service.last(0)["message"] == "The point was stopped (cell 1 of 2)"
    assert outputs(folder)[0][-1]["ename"] == "RuntimeError" and outputs(folder)[1] == []


@pytest.mark.parametrize("told", [True, False])
def test_the_end_of_the_jobs_time_is_told(
    site: RunSite, service: PlayedService, told: bool
) -> None:
    """Slurm signals the kernel too then. ``told``: it has said when the time ends; before 23.02 it
    does not, but the portal knows the limit."""
    plan = site.plan(site.notebook("print('on', flush=True)\nimport time\ntime.sleep(60)"))
    folder = plan.folder / "0000"
    named = {"id": plan.id, "name": plan.name, "folder": str(plan.folder), "points": 1}
    limited = {"PORTAL_RUN": json.dumps({**named, "limit": 5})}
    ends = {"SLURM_JOB_END_TIME": str(int(time.time()) + 5)}
    process = site.begin(plan, **(ends if told else limited))
    began = time.monotonic()
    wait_until(lambda: (folder / "output.ipynb").exists() and "on" in printed(folder), 30)
    time.sleep(max(0.0, began + 5 - time.monotonic()))
    for child in psutil.Process(process.pid).children():
        child.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    sentence = "The point was stopped: the time limit of its job was reached (cell 1 of 1)"
    assert service.last(0)["message"] == sentence


def test_input_fails_with_a_sentence(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.notebook("1", "name = input('Your name? ')"))
    assert site.execute(plan)[0] == 1
    assert service.last(0)["message"] == (
        "input() cannot be answered in a run: pass the value as a parameter (cell 2 of 2)"
    )


def test_a_huge_print_is_cut_and_the_notebook_goes_on(
    site: RunSite, service: PlayedService
) -> None:
    source = site.notebook(
        "for _ in range(300):\n    print('x' * 9999)",
        "print('y' * 100)",
        "from pathlib import Path\nPath('done').touch()\n1 / 0",
    )
    plan = site.plan(source)
    assert site.execute(plan, PORTAL_RUN_OUTPUT_LIMIT="1000000")[0] == 1
    folder = plan.folder / "0000"
    assert (site.work / "done").exists()
    assert 900_000 < (folder / "output.ipynb").stat().st_size < 1_100_000
    assert "the notebook has more than 0.954 MB" in printed(folder)
    assert outputs(folder)[2][-1]["ename"] == "ZeroDivisionError", "errors are kept"
    assert "division by zero" in service.last(0)["message"]


def test_a_kernel_that_is_killed(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.notebook("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"))
    assert site.execute(plan)[0] == 1
    message = service.last(0)["message"]
    assert message.startswith("The kernel was killed, probably because the job ran out of memory.")
    assert message.endswith("(cell 1 of 1)")
    assert "The kernel was killed" in printed(plan.folder / "0000")


def test_a_missing_kernel_names_those_that_there_are(site: RunSite, service: PlayedService) -> None:
    source = site.notebook("1")
    notebook = json.loads(source.read_text())
    plan = site.plan(source)
    content = json.loads((plan.folder / "run.json").read_text())
    content["kernel"] = "julia-1.9"
    (plan.folder / "run.json").write_text(json.dumps(content))
    plan = plan._replace(code_digest=code_digest(content))
    assert notebook and site.execute(plan)[0] == 72
    assert "has no kernel 'julia-1.9'. Its kernels:" in service.last(0)["message"]
    assert "python3" in service.last(0)["message"]


def test_an_attempt_never_writes_over_the_one_before(site: RunSite, service: PlayedService) -> None:
    fails_first = "import os\nassert os.path.isdir('runs/train/0000-2'), 'not yet'"
    plan = site.plan(site.notebook("print('hello')", fails_first))
    assert site.execute(plan)[0] == 1
    before = (plan.folder / "0000/output.ipynb").read_bytes()
    assert site.execute(plan, SLURM_RESTART_COUNT="1")[0] == 0
    assert (plan.folder / "0000/output.ipynb").read_bytes() == before
    assert printed(plan.folder / "0000-2") == "hello\n"
    assert service.last(0)["attempt"] == 2
    assert site.execute(plan, SLURM_RESTART_COUNT="2")[0] == 0
    assert not (plan.folder / "0000-3").exists(), "it has succeeded"


def test_progress_bars_and_displays(site: RunSite) -> None:
    source = site.notebook(
        "import sys\nfor n in range(1000):\n    sys.stderr.write(f'\\r{n} of 999')",
        "from IPython.display import display\nshown = display('old', display_id=True)",
        "shown.update('new')",
        "6 * 7",
    )
    plan = site.plan(source)
    assert site.execute(plan)[0] == 0
    bar, displayed, _, result = outputs(plan.folder / "0000")
    assert bar == [{"output_type": "stream", "name": "stderr", "text": "999 of 999"}]
    assert displayed[0]["data"]["text/plain"] == "'new'"
    assert result[0]["data"]["text/plain"] == "42" and result[0]["execution_count"] == 4
