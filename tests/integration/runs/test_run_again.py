"""Points that run again, and runs that repeat others, by the program of their tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from portal_session.runs.plan import Plan
from run_site import PlayedService, RunSite, manifest

ID = "7e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
# It fails until a file is there, and counts how often it ran.
FLAKY = """
import os, sys
open("count-" + os.environ["PORTAL_RUN_POINT"], "a").write("x")
from portal_metrics import log
log(loss=0.5)
sys.exit(0 if os.environ["PORTAL_RUN_POINT"] == "0" or os.path.exists("fixed") else 3)
"""


def variable(plan: Plan, **more: Any) -> str:
    """PORTAL_RUN as the Hub makes it."""
    named = {"id": plan.id, "name": plan.name, "folder": str(plan.folder), "points": plan.points,
             "code_digest": plan.code_digest}  # fmt: skip
    return json.dumps({**named, **more})


def repetition(site: RunSite, plan: Plan, name: str = "train-2", **more: Any) -> tuple[Plan, str]:
    """A run that repeats another one, as the portal makes it, and its PORTAL_RUN."""
    folder = plan.folder.with_name(name)
    new = Plan(ID, name, plan.source, folder, plan.points, plan.code_digest)
    origin = {"id": plan.id, "user": "ada", "folder": str(plan.folder)}
    return new, variable(new, origin=origin, **more)


def test_only_what_failed_runs_again(site: RunSite, service: PlayedService) -> None:
    plan_parameters = [{"n": 1}, {"n": 2}]
    plan = site.plan(site.script(FLAKY), plan_parameters)
    assert [site.execute(plan, number)[0] for number in (0, 1)] == [0, 1]
    (site.work / "fixed").touch()
    again = variable(plan, attempt=1)
    # The portal asks for point 1 alone; for point 0 it could only by mistake.
    assert [site.execute(plan, n, PORTAL_RUN=again)[0] for n in (1, 0)] == [0, 0]
    assert (site.work / "count-0").read_text() == "x", "it succeeded, and ran once"
    assert (site.work / "count-1").read_text() == "xx"
    for number in (0, 1):
        last = service.last(number)
        assert (last["state"], last["attempt"], last["metrics"]) == ("succeeded", 2, {"loss": 0.5})
        assert last["parameters"] == plan_parameters[number]
    names = sorted(path.name for path in plan.folder.iterdir() if path.is_dir())
    assert names == ["0000", "0001", "0001-2"]
    assert manifest(plan.folder / "0001")["state"] == "failed", "nothing is overwritten"
    assert manifest(plan.folder / "0001-2")["attempt"] == 2


def test_slurm_s_own_restarts_count_on(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script(FLAKY), [{}])
    site.execute(plan, PORTAL_RUN=variable(plan, attempt=4), SLURM_RESTART_COUNT="2")
    assert service.last(0)["attempt"] == 7


def test_a_run_is_repeated_exactly(site: RunSite, service: PlayedService) -> None:
    source = site.script("import os, sys; print(sys.argv[1:], os.getcwd())")
    plan = site.plan(source, [{"lr": 0.1}, {"lr": 0.2}])
    for number in (0, 1):
        assert site.execute(plan, number)[0] == 0
    source.write_text("raise SystemExit('the original was changed since')")
    new, run = repetition(site, plan)
    tasks = [site.begin(new, number, PORTAL_RUN=run) for number in (0, 1)]
    for number, task in enumerate(tasks):  # at the same moment: one of them makes the folder
        said, _ = task.communicate(timeout=120)
        assert task.returncode == 0, said
        log = (new.folder / f"000{number}/output.log").read_text()
        assert log == f"['--lr={plan_value(plan, number)}'] {site.work}\n"
        assert manifest(new.folder / f"000{number}")["drift"] == []
        assert "drift" not in service.last(number)
    content = json.loads((new.folder / "run.json").read_text())
    before = json.loads((plan.folder / "run.json").read_text())
    assert (content["id"], content["name"]) == (ID, "train-2")
    assert content["origin"]["id"] == plan.id and content["points"] == before["points"]
    assert content["sha256"] == before["sha256"]
    assert [path.name for path in plan.folder.parent.iterdir() if path.name[0] == "."] == []


def plan_value(plan: Plan, number: int) -> float:
    return float(json.loads((plan.folder / "run.json").read_text())["points"][number]["lr"])


def test_what_drifted_is_named(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("print('on')"))
    assert site.execute(plan)[0] == 0
    path = plan.folder / "0000/manifest.json"
    before = json.loads(path.read_text())
    packages = before["python"]["packages"]
    gone, *kept = packages
    before["python"] = {"version": "3.9.1", "packages": [*kept[1:], "oldest==0.1",
                        kept[0].partition("==")[0] + "==0.0.1"]}  # fmt: skip
    before["image_digest"] = f"sha256:{'a' * 64}"
    before["environment_version"] = 3
    before["gpus"] = {"count": 2, "names": ["V100"]}
    path.write_text(json.dumps(before))
    new, run = repetition(site, plan, version=5)
    variables = {"SLURMD_NODENAME": "gpu02", "PORTAL_IMAGE_DIGEST": f"sha256:{'b' * 64}"}
    assert site.execute(new, PORTAL_RUN=run, **variables)[0] == 0
    drift = service.last(0)["drift"]
    assert drift == manifest(new.folder / "0000")["drift"]
    name, _, version = kept[0].partition("==")
    expected = {
        "The version of the environment is 5 instead of 3.",
        "The image is sha256:bbbbbbbbbbbb instead of sha256:aaaaaaaaaaaa.",
        "The node is gpu02 instead of gpu01.",
        f"{name} is {version} instead of 0.0.1.",
        "oldest 0.1 is missing.",
        f"{gone.partition('==')[0]} {gone.partition('==')[2]} was not installed.",
    }
    assert expected <= set(drift), drift
    assert any(text.startswith("Python is 3.") for text in drift)
    assert any(text.startswith("GPUs: none instead of 2 of type V100") for text in drift), drift


def test_a_source_that_was_changed_is_not_repeated(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("print('on')"))
    (plan.folder / "source.py").write_text("print('other')")
    new, run = repetition(site, plan)
    assert site.execute(new, PORTAL_RUN=run)[0] == 72
    assert "was changed after it was frozen" in service.last(0)["message"]
    assert not new.folder.exists(), "nothing is half made"


def test_an_original_that_is_gone(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("print('on')"))
    new, run = repetition(site, plan)
    plan.folder.rename(plan.folder.with_name("elsewhere"))
    assert site.execute(new, PORTAL_RUN=run)[0] == 72
    message = service.last(0)["message"]
    assert str(plan.folder) in message and "deleted or moved" in message


def test_an_original_that_cannot_be_read(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("print('on')"))
    new, run = repetition(site, plan)
    plan.folder.rename(plan.folder.with_name("elsewhere"))
    plan.folder.write_text("root may read every folder, but this is none")
    assert site.execute(new, PORTAL_RUN=run)[0] == 72
    message = service.last(0)["message"]
    assert message.startswith(f"The original run's folder {plan.folder} cannot be read: ")
    assert "Ask ada to let you read it" in message


def test_a_colleague_s_repetition_is_in_their_home(
    site: RunSite, service: PlayedService, tmp_path: Path
) -> None:
    site.script("NAMED = 'beside the original'\n", "helper.py")
    plan = site.plan(site.script("import helper; print(helper.NAMED)"))
    folder = site.home / "other/runs/train-2"
    folder.parent.parent.mkdir()
    origin = {"id": plan.id, "user": "ada", "folder": str(plan.folder)}
    new = Plan(ID, "train-2", plan.source, folder, 1, plan.code_digest)
    assert site.execute(new, PORTAL_RUN=variable(new, origin=origin))[0] == 0
    assert (folder / "0000/output.log").read_text() == "beside the original\n"
    # A repetition of the repetition has the same folder to work in.
    second = new._replace(
        id=ID.replace("7", "6"), name="train-3", folder=folder.with_name("train-3")
    )
    origin = {"id": ID, "user": "grace", "folder": str(folder)}
    assert site.execute(second, PORTAL_RUN=variable(second, origin=origin))[0] == 0
    assert (second.folder / "0000/output.log").read_text() == "beside the original\n"


def test_a_folder_of_another_run_is_left_alone(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script("print('on')"))
    other = site.plan(site.script("print('other')"))  # train-2, such as of a run that was deleted
    assert site.execute(other)[0] == 0
    new, run = repetition(site, plan, other.folder.name)
    assert site.execute(new, PORTAL_RUN=run)[0] == 72
    assert "is another run's" in service.last(0)["message"]
    assert (other.folder / "source.py").read_text() == "print('other')"
