"""Scripts in runs, and what happens to a point whose portal, files or folder are not there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from itertools import pairwise

import psutil
import pytest
from portal_session.kernels.environment import LIBRARY
from run_site import PlayedService, RunSite, manifest, wait_until

ECHO = """
import json, os, sys
import helper
from portal_metrics import log
log(loss=1.5)
log(loss=0.5)
print(sys.argv[1:])
print(json.loads(os.environ["PORTAL_PARAMETERS"]))
print(os.getcwd(), helper.NAMED, [n for n in os.environ if "TOKEN" in n or n.startswith("SLURM_")])
"""


def test_a_script_has_its_values_and_its_folder(site: RunSite, service: PlayedService) -> None:
    site.script("NAMED = 'helper'\n", "helper.py")
    values = {"lr": 0.1, "fast": True, "note": "a 'b'\n\"c\" $(touch x)", "rest": None}
    plan = site.plan(site.script(ECHO), [values])
    assert site.execute(plan)[0] == 0
    log = (plan.folder / "0000/output.log").read_text()
    arguments = ["--lr=0.1", "--fast=true", f"--note={values['note']}", "--rest=null"]
    assert log == f"{arguments}\n{values}\n{site.work} helper ['MLFLOW_TRACKING_TOKEN']\n"
    last = service.last(0)
    assert (last["state"], last["cell"], last["cells"]) == ("succeeded", None, None)
    assert last["metrics"] == {"loss": 0.5}
    assert last["curves"] == {"loss": [[0, 1.5], [1, 0.5]]}
    assert last["parameters"] == {**values, "note": "a 'b'\ufffd\"c\" $(touch x)"}
    about = manifest(plan.folder / "0000")
    assert about["python"]["packages"] and about["parameters"] == values
    assert "curves" not in about


PLACES = """
import multiprocessing, os, sys, traceback
import source
HERE = os.path.dirname(os.path.abspath(__file__))
def named(_):
    return __file__, open(os.path.join(HERE, "data.txt")).read()
if __name__ == "__main__":
    print(__file__, sys.argv[0], sys.path[0], __name__, source.NAMED, "NEIGHBOUR" in os.environ)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(named, [0]))
    named("frozen") and None.missing
"""


def test_a_script_is_where_its_author_has_it(site: RunSite, service: PlayedService) -> None:
    """Files and modules beside it are found as by `python3 train.py`, and what is executed is what
    was frozen, in further processes and in tracebacks too."""
    site.script("NAMED = 'the module'\n", "source.py")
    site.script("import os\nos.environ['NEIGHBOUR'] = '1'\n", "sitecustomize.py")
    (site.work / "data.txt").write_text("data")
    path = site.script(PLACES)
    plan = site.plan(path)
    path.write_text("print('changed')\n" * 30)
    assert site.execute(plan)[0] == 1
    lines = (plan.folder / "0000/output.log").read_text().splitlines()
    assert lines[0] == f"{path} {path} {site.work} __main__ the module False"
    assert lines[1] == str([(str(path), "data")])
    number = PLACES.splitlines().index('    named("frozen") and None.missing') + 1
    assert lines[2:5] == [
        "Traceback (most recent call last):",
        f'  File "{path}", line {number}, in <module>',
        '    named("frozen") and None.missing',
    ]
    message = "AttributeError: 'NoneType' object has no attribute 'missing' (exit code 1)"
    assert service.last(0)["message"] == message


def test_a_script_in_a_container_that_lacks_the_library_is_there_too(site: RunSite) -> None:
    """The text of the main module is its argument then."""
    path = site.script("print('other')")
    frozen = site.home / "frozen.py"
    frozen.write_text("import sys\nprint(__file__, sys.argv, sys.path[0], __name__)")
    done = subprocess.run(
        [sys.executable, "-c", (LIBRARY / "portal_main.py").read_text(), "--v=1.10"],
        env={"PORTAL_SOURCE": str(path), "PORTAL_FROZEN_SOURCE": str(frozen)},
        cwd=site.work,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{path} {[str(path), '--v=1.10']} {site.work} __main__\n", done.stderr


def test_arguments_are_as_they_were_typed(site: RunSite) -> None:
    text = "import os, sys\nprint(sys.argv[1:], os.environ['PORTAL_PARAMETERS'])"
    plan = site.plan(site.script(text), [{"v": 1.1, "n": 2}], typed=[{"v": "1.10"}])
    assert site.execute(plan)[0] == 0
    log = (plan.folder / "0000/output.log").read_text()
    assert log == "['--v=1.10', '--n=2'] {\"v\": 1.1, \"n\": 2}\n"


def has_ended(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE  # in a container
    except psutil.NoSuchProcess:
        return True


LEAVES = """
import subprocess, sys
code = "import time; print('child', flush=True); time.sleep(120)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session={new})
print(child.pid, flush=True)
sys.exit({code})
"""


@pytest.mark.parametrize(("new", "code"), [(False, 0), (True, 0), (True, 3)])
def test_a_child_that_holds_the_output_is_ended(
    site: RunSite, service: PlayedService, new: bool, code: int
) -> None:
    plan = site.plan(site.script(LEAVES.format(new=new, code=code)))
    began = time.monotonic()
    assert site.execute(plan)[0] == (1 if code else 0)
    assert time.monotonic() - began < 20
    printed = (plan.folder / "0000/output.log").read_text().split()
    child = next(word for word in printed if word.isdigit())
    assert sorted(printed) == sorted([child, "child"])
    wait_until(lambda: has_ended(int(child)), 5)
    message = service.last(0)["message"]
    assert f"({child}), which held its output open and was ended." in message
    assert ("(exit code 3). It left behind " in message) == bool(code)


def test_the_sentence_of_a_progress_bar_is_its_last_state(
    site: RunSite, service: PlayedService
) -> None:
    text = "for step in range(50): print(f'\\r{step} of 49', end='')\nraise SystemExit(4)"
    assert site.execute(site.plan(site.script(text)))[0] == 1
    assert service.last(0)["message"] == "49 of 49 (exit code 4)"


def test_a_script_that_fails(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("print('on')\nraise ValueError('boom')"))
    code, said = site.execute(plan)
    assert code == 1
    assert service.last(0)["message"] == "ValueError: boom (exit code 1)"
    assert "Point 0: ValueError: boom" in said
    assert "Traceback" in (plan.folder / "0000/output.log").read_text()


def test_input_of_a_script(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("input('name? ')"))
    assert site.execute(plan)[0] == 1
    assert "input() cannot be answered in a run" in service.last(0)["message"]


def test_a_huge_log_is_cut_and_the_script_goes_on(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("for _ in range(300): print('x' * 9999)\nopen('done', 'w')"))
    assert site.execute(plan, PORTAL_RUN_OUTPUT_LIMIT="1000000")[0] == 0
    log = (plan.folder / "0000/output.log").read_text()
    assert (site.work / "done").exists() and len(log) < 1_001_000
    assert log.endswith("The rest of this output was dropped: it is larger than 0.954 MB.\n")


@pytest.mark.parametrize("deaf", [False, True])
def test_a_script_is_stopped(site: RunSite, service: PlayedService, deaf: bool) -> None:
    ignores = "import signal; signal.signal(15, signal.SIG_IGN)\n" * deaf
    plan = site.plan(site.script(f"{ignores}print('on')\nimport time\ntime.sleep(60)"))
    process = site.begin(plan)
    log = plan.folder / "0000/output.log"
    wait_until(lambda: log.exists() and log.read_text() == "on\n")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
    assert service.last(0)["message"] == "The point was stopped"


SAVES = """
import os, pathlib, signal, time
def save(*_):
    time.sleep({seconds})
    pathlib.Path("saved").touch()
    os._exit(0)
signal.signal(signal.SIGTERM, save)
print("on", flush=True)
time.sleep(60)
"""


def test_a_script_has_slurms_time_to_end(site: RunSite, service: PlayedService) -> None:
    """Between SIGTERM and SIGKILL (slurm.conf(5), KillWait), without what the report takes."""
    site.run = {"kill_wait": 12}
    plan = site.plan(site.script(SAVES.format(seconds=6)))
    process = site.begin(plan)
    log = plan.folder / "0000/output.log"
    wait_until(lambda: log.exists() and log.read_text() == "on\n")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143 and (site.work / "saved").exists()
    assert service.last(0)["message"] == "The point was stopped"


def test_the_report_comes_before_slurms_kill(site: RunSite, service: PlayedService) -> None:
    site.run = {"kill_wait": 5}
    plan = site.plan(site.script(SAVES.format(seconds=60)))
    process = site.begin(plan)
    log = plan.folder / "0000/output.log"
    wait_until(lambda: log.exists() and log.read_text() == "on\n")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert service.last(0)["message"] == "The point was stopped"


def test_a_portal_that_is_away_learns_of_the_end_later(
    site: RunSite, service: PlayedService
) -> None:
    service.away = 3
    plan = site.plan(site.script("print('on')"))
    assert site.execute(plan)[0] == 0
    assert [report["state"] for report in service.reports] == ["succeeded"]
    assert len(service.refused) == 3


def test_a_point_that_has_ended_waits_for_the_portal_no_longer_than_slurm_lets_it(
    site: RunSite, service: PlayedService
) -> None:
    """Else Slurm would kill it, and say that it reached its time limit."""
    service.away = 10**6
    plan = site.plan(site.script("print('on')"))
    process = site.begin(plan)
    wait_until(lambda: any(report["state"] == "succeeded" for report in service.refused))
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "The end of the point was not reported" in said
    assert manifest(plan.folder / "0000")["state"] == "succeeded"


def test_without_a_portal_the_manifest_has_the_end(site: RunSite) -> None:
    plan = site.plan(site.script("raise SystemExit(3)"))
    process = site.begin(plan, PORTAL_SERVICE_URL="http://127.0.0.1:9")
    path = plan.folder / "0000/manifest.json"
    wait_until(lambda: path.exists() and manifest(path.parent)["state"] == "failed", 30)
    assert manifest(path.parent)["message"] == "The script failed (exit code 3)"
    process.send_signal(signal.SIGTERM)  # it tries for a minute otherwise


def test_reports_of_a_running_point_are_seconds_apart(
    site: RunSite, service: PlayedService
) -> None:
    text = (
        "from portal_metrics import log\nimport time\n"
        "for step in range(140):\n    log(step=step)\n    time.sleep(0.1)"
    )
    plan = site.plan(site.script(text))
    assert site.execute(plan)[0] == 0
    running = service.times[:-1]
    assert 2 <= len(running) <= 4
    assert all(later - before >= 5 for before, later in pairwise(running))
    assert service.last(0)["metrics"] == {"step": 139.0}


@pytest.mark.parametrize("fault", ["gone", "changed", "number", "other"])
def test_a_run_that_is_not_there(site: RunSite, service: PlayedService, fault: str) -> None:
    plan = site.plan(site.script("print('on')"))
    number = 1 if fault == "number" else 0
    if fault == "gone":
        plan.remove()
    elif fault == "changed":
        (plan.folder / "source.py").write_text("print('other')")
    elif fault == "other":
        plan = plan._replace(id="0" * 32)
    code, said = site.execute(plan, number)
    assert code == 72 and "Traceback" not in said
    sentences = {
        "gone": "does not exist on this node",
        "changed": "was changed after it was frozen",
        "number": "The run has no point 1.",
        "other": "is another run's.",
    }
    assert sentences[fault] in service.last(number)["message"]


def test_what_is_no_task_says_so(site: RunSite) -> None:
    plan = site.plan(site.script("print('on')"))
    for variables in ({"PORTAL_RUN": "{"}, {"SLURM_ARRAY_TASK_ID": ""}, {"PORTAL_RUN": "[]"}):
        code, said = site.execute(plan, **variables)
        assert (code, said) == (72, "This job cannot run a point: It is not a task of a run.\n")


def test_a_linked_script_finds_what_is_beside_its_file(site: RunSite) -> None:
    """As Python does it: modules are beside the file, relative paths begin where the link is."""
    real = site.work / "real"
    (real / "package").mkdir(parents=True)
    (real / "package/__init__.py").write_text("")
    (real / "package/data.txt").write_text("data")
    (real / "train.py").write_text(
        "import os, package\nfrom importlib import resources\n"
        "print(resources.files('package').joinpath('data.txt').read_text(), os.getcwd(), __file__)"
    )
    link = site.work / "link.py"
    link.symlink_to(real / "train.py")
    plan = site.plan(link)
    assert [path.name for path in (plan.folder / "modules").iterdir()] == ["package.__init__.py"]
    assert site.execute(plan)[0] == 0
    assert (plan.folder / "0000/output.log").read_text() == f"data {site.work} {link}\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('outer\\nsecond line')", "RuntimeError: outer second line"),
        ("class TrialPruned(Exception): pass\n"
         "TrialPruned.__module__ = 'optuna.exceptions'\n"
         "import atexit\natexit.register(print, 'bye')\nraise TrialPruned",
         "optuna.exceptions.TrialPruned bye"),
        ("raise ValueError('\\n'.join(['no data', *'abcdef']))", "ValueError: no data … f"),
        ("import logging\ntry:\n    1 / 0\nexcept Exception: logging.exception('on')\n"
         "raise SystemExit('no data')", "ZeroDivisionError: division by zero no data"),
    ],
)  # fmt: skip
def test_the_sentence_begins_with_the_error(
    site: RunSite, service: PlayedService, code: str, message: str
) -> None:
    assert site.execute(site.plan(site.script(code)))[0] == 1
    assert service.last(0)["message"] == f"{message} (exit code 1)"


def test_the_sentence_of_a_group_of_errors(site: RunSite, service: PlayedService) -> None:
    """Python 3.11 draws it as a tree."""
    drawn = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "train.py", line 1, in <module>\n'
        "  | ExceptionGroup: many (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n    | ValueError: a\n"
        "    +---------------- 2 ----------------\n    | TypeError: b\n"
        "    +------------------------------------"
    )
    assert site.execute(site.plan(site.script(f"raise SystemExit({drawn!r})")))[0] == 1
    message = "ExceptionGroup: many (2 sub-exceptions) (exit code 1)"
    assert service.last(0)["message"] == message
