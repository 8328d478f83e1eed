"""Points whose time is over: they are saved, and go on in their next job as if in one."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from frameworks import python_of
from portal_session.runs.execution import resumption
from portal_session.runs.plan import Plan
from run_site import PlayedService, RunSite, manifest, printed, wait_until

RESUMES = 85
# Beside the sources: `gate(step)` returns at once, but at the step of an attempt that is to be
# interrupted there. It waits for Slurm's signal then.
GATE = """
import os, time
from pathlib import Path

def gate(step):
    attempt = Path(os.environ["PORTAL_ATTEMPT"])
    hold = Path("hold-" + attempt.name)
    if hold.exists() and int(hold.read_text()) == step:
        Path("at-" + attempt.name).touch()
        while not (attempt / "save-now").exists():
            time.sleep(0.05)
        time.sleep(0.3)  # the loop does not look all the time
"""
# A walk whose steps depend on all before them, and on random numbers.
PLAIN = """
import json, random
from gate import gate
from portal_checkpoint import resumed
random.seed(7)
state = {"loss": 1.0}
for step in resumed(range(40), state=state):
    state["loss"] += random.gauss(0, 1) / (1 + state["loss"] ** 2)
    print("step", step, flush=True)
    gate(step)
print(json.dumps({"loss": state["loss"]}))
"""
SAVED = "Saved after"


def resuming(site: RunSite, plan: Plan, attempt: int, resumes: int = 5, **more: str) -> Any:
    named = {"id": plan.id, "name": plan.name, "folder": str(plan.folder), "points": plan.points}
    named |= {"resumes": resumes, "notice": int(more.pop("notice", 60))}
    variables = {"PORTAL_RUN": json.dumps(named), "SLURM_RESTART_COUNT": str(attempt - 1)}
    return site.begin(plan, **variables, **more)


def interrupted(
    site: RunSite, plan: Plan, attempt: int, step: int, code: int = RESUMES, **more: Any
) -> str:
    """Execute an attempt whose time is nearly over at this step; return what its job's log says."""
    name = "0000" if attempt == 1 else f"0000-{attempt}"
    (site.work / "gate.py").write_text(GATE)
    (site.work / f"hold-{name}").write_text(str(step))
    process = resuming(site, plan, attempt, **more)
    wait_until((site.work / f"at-{name}").exists, 150)
    process.send_signal(signal.SIGUSR1)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == code, said
    return str(said)


def last_line(log: Path) -> float:
    return float(json.loads(log.read_text().splitlines()[-1])["loss"])


def test_a_script_ends_as_if_it_had_not_been_interrupted(
    site: RunSite, service: PlayedService
) -> None:
    plan = site.plan(site.script(PLAIN), [{"x": 1}, {"x": 2}])
    folder = plan.folder
    said = interrupted(site, plan, 1, 3)
    assert SAVED in said and "1 of 5" in said
    last = service.last(0)
    assert (last["state"], last["attempt"]) == ("waiting", 1)
    assert manifest(folder / "0000")["state"] == "waiting"
    interrupted(site, plan, 2, 20)
    process = resuming(site, plan, 3)
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said
    last = service.last(0)
    assert (last["state"], last["message"], last["attempt"]) == (
        "succeeded",
        "Resumed 2 times.",
        3,
    )
    assert site.execute(plan, 1)[0] == 0
    loss = last_line(folder / "0001/output.log")
    assert last_line(folder / "0000-3/output.log") == loss
    steps = [
        line
        for number in ("0000", "0000-2", "0000-3")
        for line in (folder / number / "output.log").read_text().splitlines()
        if line.startswith("step")
    ]
    assert steps == [f"step {number}" for number in range(40)], "none is lost, none is done twice"
    assert not (folder / "0001.checkpoint").exists(), "nothing is saved without a reason"


def test_a_notebook_goes_on(site: RunSite, service: PlayedService) -> None:
    loop = (
        "from gate import gate\nfrom portal_checkpoint import resumed\nseen = []\n"
        "for step in resumed(range(8), seen=seen):\n    seen.append(step)\n    gate(step)"
    )
    plan = site.plan(site.notebook(loop, "print('seen', seen)"))
    first = plan.folder / "0000"
    interrupted(site, plan, 1, 1)
    assert "was saved and continues" in (first / "output.ipynb").read_text()
    process = resuming(site, plan, 2)
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert printed(plan.folder / "0000-2").endswith(f"seen {list(range(8))}\n")
    assert service.last(0)["message"] == "Resumed 1 time."


def test_without_a_checkpoint_it_is_not_resumed(site: RunSite, service: PlayedService) -> None:
    """A program that ignores the signal goes on with its work: it may yet be in time."""
    plan = site.plan(site.script("print('on', flush=True)\nimport time\ntime.sleep(600)"))
    process = resuming(site, plan, 1, notice="2")
    log = plan.folder / "0000/output.log"
    wait_until(lambda: log.exists() and log.read_text() == "on\n")
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: (plan.folder / "0000" / resumption.REQUEST).exists())
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    last = service.last(0)
    assert last["state"] == "failed"
    assert last["message"].startswith("The point was stopped: the time limit of its job")
    assert "It was not resumed because it had saved no checkpoint" in last["message"]


def test_a_step_that_is_too_long_loses_only_itself(site: RunSite, service: PlayedService) -> None:
    """The next job begins with the checkpoint of the minutes before."""
    text = (
        "import time\nfrom gate import gate\nfrom portal_checkpoint import resumed\n"
        "for step in resumed(range(9), minutes=0):\n"
        "    print('step', step, flush=True)\n    gate(step)\n"
        "    time.sleep(600 if step == 3 else 0.3)"
    )
    plan = site.plan(site.script(text))
    said = interrupted(site, plan, 1, 3, notice="5")
    assert SAVED in said
    process = resuming(site, plan, 2)
    log = plan.folder / "0000-2/output.log"
    wait_until(lambda: log.exists() and "step" in log.read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    first = log.read_text().splitlines()[0]
    assert first in ("step 1", "step 2", "step 3"), "a save takes its time, the last may be missing"


def test_it_is_resumed_as_often_as_was_asked_for(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script(PLAIN))
    interrupted(site, plan, 1, 3, resumes=1)
    interrupted(site, plan, 2, 5, resumes=1, code=1)
    message = service.last(0)["message"]
    assert "it has been resumed 1 time, as often as '--resume' allows" in message
    assert str(plan.folder / "0000.checkpoint/checkpoint") in message
    (plan.folder / "0000.checkpoint/checkpoint").write_bytes(b"damaged")
    process = resuming(site, plan, 3)
    process.communicate(timeout=60)
    assert "Delete it to start over" in service.last(0)["message"]


def test_who_stops_a_point_ends_it(site: RunSite, service: PlayedService) -> None:
    (site.work / "gate.py").write_text(GATE)
    (site.work / "hold-0000").write_text("1")
    plan = site.plan(site.script(PLAIN))
    process = resuming(site, plan, 1)
    wait_until((site.work / "at-0000").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert service.last(0)["message"] == "The point was stopped"


TORCH = """
import torch
from gate import gate
from portal_checkpoint import resumed
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
for epoch in resumed(range(30), model=model, optimizer=optimizer, scheduler=scheduler):
    for batch in torch.randperm(64).split(16):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
    scheduler.step()
    print("step", epoch, flush=True)
    gate(epoch)
model.eval()
print('{"loss": %r}' % torch.nn.functional.mse_loss(model(x), y).item())
"""
KERAS = """
import numpy, keras
from gate import gate
from portal_checkpoint import resumed
keras.utils.set_random_seed(3)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, activation="tanh"),
                          keras.layers.Dropout(0.3), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
x = numpy.random.randn(64, 4).astype("float32")
y = x.sum(1, keepdims=True)
for epoch in resumed(range(12), model=model):
    order = numpy.random.permutation(64)
    model.fit(x[order], y[order], epochs=epoch + 1, initial_epoch=epoch, shuffle=False, verbose=0)
    print("step", epoch, flush=True)
    gate(epoch)
print('{"loss": %r}' % float(model.evaluate(x, y, verbose=0)[0]))
"""


@pytest.mark.parametrize(("name", "script"), [("torch", TORCH), ("tensorflow", KERAS)])
def test_the_loss_of_a_framework_is_that_of_the_uninterrupted_training(
    site: RunSite, name: str, script: str
) -> None:
    python = str(python_of(name))
    site.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    training = str(site.script(script, "training.py"))
    begin = f"import os\nos.execv({python!r}, {[python, training]!r})\n"
    plan = site.plan(site.script(begin), [{"x": 1}, {"x": 2}])
    folder = plan.folder
    (site.work / "gate.py").write_text(GATE)
    whole = site.begin(plan, 1)
    interrupted(site, plan, 1, 3)
    process = resuming(site, plan, 2)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert whole.wait(200) == 0
    assert "step 2\n" not in (folder / "0000-2/output.log").read_text()
    loss = last_line(folder / "0001/output.log")
    assert last_line(folder / "0000-2/output.log") == pytest.approx(loss, rel=1e-6)
