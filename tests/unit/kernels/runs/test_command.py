"""Command line of portal-run: what it asks the portal for, and what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from portal_session import portal_error
from portal_session.job_kernels.broker_client import Broker, BrokerError
from portal_session.runs import RunError, plan
from portal_session.runs.frozen import code_digest
from portal_session.runs.portal_run import command
from run_fields import choices

ENVIRON = {"PORTAL_ENVIRONMENT": "pytorch", "PORTAL_KERNEL_BROKER": "/nowhere/broker"}


class PlayedBroker(Broker):
    """Broker whose answers are ``answers``, by method and path; an error is raised. ``asked``: the
    requests but those for the fields of resources; ``items``: the environments."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        super().__init__("/nowhere")
        self.answers = dict(answers or {})
        self.asked: list[tuple[str, Any]] = []
        self.items: list[dict[str, Any]] = []

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if path == "/runs/choices":
            return {**choices(), "items": self.items}
        self.asked.append((f"{method} {path}", body))
        answer = self.answers.get(f"{method} {path.split('?')[0]}", self.answers.get(method, {}))
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "git_state", lambda folder: None)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("print('on')\n")
    return path


def start(broker: Broker, *argv: Any) -> str:
    return command.start([str(word) for word in argv], broker, ENVIRON)


def test_what_the_portal_is_asked_for(script: Path) -> None:
    broker = PlayedBroker()
    said = start(
        broker, script, "--set", "lr=0.1,1", "--set", "seed=1,2,3", "--name", "rates",
        "--at-once", 4, "--gpus", 1, "--gpu-type", "v100", "--cpus", 2, "--memory", "8G",
        "--time", "1:00:00", "--environment", "tensorflow", "--partition", "gpu",
        "--account", "biology", "--qos", "normal", "--nodes", 2, "--constraint", "nvlink",
    )  # fmt: skip
    ((asked, body),) = broker.asked
    folder = script.parent / "runs/rates"
    content = json.loads((folder / "run.json").read_text())
    assert asked == "POST /runs"
    assert body == {
        "code_digest": code_digest(content),
        "id": content["id"],
        "name": "rates",
        "source": str(script),
        "folder": str(folder),
        "points": 6,
        "at_once": 4,
        "environment": "tensorflow",
        "gpus": 1,
        "gpu_type": "v100",
        "cpus": 2,
        "memory": "8G",
        "time": "1:00:00",
        "partition": "gpu",
        "account": "biology",
        "qos": "normal",
        "nodes": 2,
        "constraint": "nvlink",
    }
    assert content["points"][1] == {"lr": 0.1, "seed": 2}
    assert content["environment"] == "tensorflow" and content["resources"]["memory"] == "8G"
    assert "Run 'rates': 6 points, at most 4 at once." in said and str(folder) in said


def test_the_least_that_one_may_give(script: Path) -> None:
    broker = PlayedBroker()
    said = start(broker, script)
    body = broker.asked[0][1]
    assert (body["name"], body["points"], body["at_once"]) == ("train", 1, 10)
    assert body["environment"] == "pytorch" and "gpus" not in body
    assert said.startswith("Run 'train': 1 point, at most 1 at once.")


def test_mail_is_asked_for(script: Path) -> None:
    broker = PlayedBroker()
    start(broker, script, "--notify", "failure", "--notify", "end", "--notify", "end")
    assert broker.asked[0][1]["notify"] == ["end", "failure"]


def test_it_starts_after_a_run_of_this_name(script: Path) -> None:
    runs = [
        {"id": "1e2f3c1a", "name": "prepare", "ended_at": 5.0},
        {"id": "2e2f3c1a", "name": "prepare", "ended_at": None},
        {"id": "3e2f3c1a", "name": "other", "ended_at": None},
    ]
    broker = PlayedBroker({"GET /runs": {"items": runs}})
    said = start(broker, script, "--after", "prepare")
    (_, (asked, body)) = broker.asked
    assert asked == "POST /runs" and body["after"] == "2e2f3c1a"
    assert "Starts:  once all points of 'prepare' have succeeded" in said
    said = start(broker, script, "--name", "by-id", "--after", "3e2f3c1a")
    assert "Starts:  once all points of 'other' have succeeded" in said
    with pytest.raises(RunError, match="You have no run 'nowhere'") as error:
        start(broker, script, "--after", "nowhere")
    assert error.value.field == "after"
    assert {path.name for path in (script.parent / "runs").iterdir()} == {"train", "by-id"}


def test_points_may_be_resumed(script: Path) -> None:
    broker = PlayedBroker()
    start(broker, script, "--resume", 20)
    assert broker.asked[0][1]["resumes"] == 20


@pytest.mark.parametrize("status", [400, 403, 404, 409, 429])
def test_a_refused_run_leaves_nothing(script: Path, status: int) -> None:
    broker = PlayedBroker({"POST": BrokerError("The limit is 20 runs.", status)})
    with pytest.raises(RunError, match=r"The limit is 20 runs\."):
        start(broker, script)
    assert [path.name for path in script.parent.iterdir()] == ["train.py"]


def test_an_answer_that_is_lost(script: Path) -> None:
    """The run counts if the portal has it; if that is not known, its folder stays."""
    lost = BrokerError("The session's server does not answer.", 503)
    runs = script.parent / "runs"
    said = start(PlayedBroker({"POST": lost}), script)
    assert "Run 'train'" in said and said.endswith("The session's server does not answer.")
    gone = PlayedBroker({"POST": lost, "GET": BrokerError("You have no such run.", 404)})
    with pytest.raises(RunError, match=r"^The session's server does not answer\.$"):
        start(gone, script)
    assert [path.name for path in runs.iterdir()] == ["train"]
    with pytest.raises(RunError, match="It is not known whether the run 'train-2' was accepted"):
        start(PlayedBroker({"POST": lost, "GET": lost}), script)
    assert (runs / "train-2/run.json").exists()


def test_an_interrupt_while_the_portal_is_asked_keeps_the_folder(script: Path) -> None:
    broker = PlayedBroker()

    def interrupt(method: str, *_: Any) -> dict[str, Any]:
        if method == "GET":
            return choices()
        raise KeyboardInterrupt

    broker.ask = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        start(broker, script)
    assert (script.parent / "runs/train/run.json").exists()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--gpus", "x"], "must be a whole number from 0 to 65536"),
        (["--gpus", "-1"], "portal-run --help"),
        (["--nodes", "0"], "must be a whole number from 1 to 65536"),
        (["--at-once", "0"], "must be a whole number from 1 to 1000"),
        (["--at-once", "9" * 50], "must be a whole number from 1 to 1000"),
        (["--resume", "1001"], "must be a whole number from 0 to 1000"),
        (["--sample", "3"], "There is no grid to sample"),
        (["--seed", "3"], "'--seed' requires"),
        (["--name", "../x"], "is not a valid name of a run"),
        (["--name", ""], "is not a valid name of a run"),
        (["--set", "lr"], "'lr' sets nothing"),
        (["--list", "nowhere.csv"], "cannot be read"),
        (["--unknown"], "Unrecognized arguments: --unknown"),
        (["--gpu", "1"], "Unrecognized arguments: --gpu 1"),
    ],
)
def test_options_that_are_refused(script: Path, argv: list[str], sentence: str) -> None:
    broker = PlayedBroker()
    with pytest.raises(RunError) as error:
        start(broker, script, *argv)
    assert sentence in str(error.value)
    assert broker.asked == [] and not (script.parent / "runs").exists()


def test_the_seed_of_a_sample_is_kept(script: Path) -> None:
    start(PlayedBroker(), script, "--set", "a=1,2,3,4", "--sample", 2)
    content = json.loads((script.parent / "runs/train/run.json").read_text())
    assert len(content["points"]) == 2 and isinstance(content["seed"], int)
    start(PlayedBroker(), script, "--set", "a=1,2,3,4", "--sample", 2, "--seed", content["seed"])
    again = json.loads((script.parent / "runs/train-2/run.json").read_text())
    assert again["points"] == content["points"]


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({}, "only works in a session of the portal with JupyterLab"),
        ({"PORTAL_KERNEL": "{}"}, "This notebook's kernel runs in its own Slurm job"),
        ({**ENVIRON, "PORTAL_RUN": "{}"}, "A point of a run cannot start runs"),
    ],
)
def test_where_it_does_not_work(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        command.run(["list"], environ)


def test_a_server_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("sys.argv", ["portal-run", "list"])
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 1
    assert capsys.readouterr().err == "portal-run: The session's server does not answer.\n"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([], ["--help"]):
        with pytest.raises(SystemExit) as end:
            command.run(argv, {})
        assert end.value.code == 0
        said = capsys.readouterr().out
        assert "portal-run stop NAME" in said and "listed in a session" in said


def test_help_in_a_session_has_the_fields_and_their_choices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broker, "ask", lambda *_: choices())
    with pytest.raises(SystemExit):
        command.run(["--help"], ENVIRON)
    said = " ".join(capsys.readouterr().out.split())
    assert "--partition PARTITION the name of a partition: cpu, gpu" in said
    assert "--memory MEMORY a size such as '4G'" in said


RUNS = {
    "items": [
        {"id": "0" * 32, "name": "rates", "source": "work/train.py", "points": 3, "folder": "/r",
         "state": "ended",
         "counts": {"failed": 1, "succeeded": 1, "waiting": 1}, "ended_at": 1.0},
        {"id": "1" * 32, "name": "rates", "source": "a\x1b[31m.py", "points": 2, "ended_at": None},
    ]
}  # fmt: skip
POINTS = {
    "total": 200,
    "items": [
        {"number": 1, "state": "failed", "cell": 2, "cells": 5, "message": "ValueError: x",
         "metrics": {"loss": 0.123456789}},
        {"number": 2, "state": "waiting", "cell": None, "cells": None, "metrics": {}},
    ],
}  # fmt: skip

RUNS_OF_ONE = {"items": RUNS["items"][:1]}


def listed(*argv: str, **answers: Any) -> tuple[str, PlayedBroker]:
    broker = PlayedBroker({"GET /runs": RUNS, "GET": POINTS, **answers})
    return command.listing.run(argv, broker), broker


def test_runs_are_listed() -> None:
    said, _ = listed("list")
    lines = [line.split() for line in said.splitlines()]
    assert lines[1] == ["rates", "ended", "3", "1", "0", "1", "1", "0", "work/train.py"]
    assert "\x1b" not in said
    assert listed("list", **{"GET /runs": {"items": []}})[0] == "You have no runs."
    with pytest.raises(RunError, match="takes no argument"):
        listed("list", "x")


def test_a_run_is_shown() -> None:
    said, broker = listed("show", "0" * 32, "--state", "failed")
    assert broker.asked[-2][0] == f"GET /runs/{'0' * 32}/points?limit=100&state=failed"
    assert broker.asked[-1][0] == f"GET /runs/{'0' * 32}"
    assert "1      failed   2 of 5              loss=0.123457  ValueError: x\n" in said
    assert "(2 of 200 points)" in said
    with pytest.raises(RunError, match="You have no run 'x'"):
        listed("show", "x")


def test_a_run_is_shown_with_its_parameters(script: Path) -> None:
    start(PlayedBroker(), script, "--set", "lr=0.1,1", "--set", "note=a\x1bb", "--name", "rates")
    folder = str(script.parent / "runs/rates")
    runs = {"items": [{**RUNS["items"][0], "folder": folder}]}
    said, _ = listed("show", "rates", **{"GET /runs": runs})
    assert '1      failed   2 of 5  lr=1 note="a\\u001bb"  loss=0.123457  ValueError: x\n' in said
    (Path(folder) / "run.json").write_text("{")
    assert "ValueError: x" in listed("show", "rates", **{"GET /runs": runs})[0]


def test_the_search_of_a_run_is_shown() -> None:
    search = {"metric": "loss", "direction": "minimize", "best": None}
    path = f"GET /runs/{'0' * 32}"
    said, _ = listed("show", "rates", **{path: {"search": search}, "GET /runs": RUNS_OF_ONE})
    assert "Search: minimize loss; no point has a value yet\n" in said
    best = {"point": 3, "value": 0.123456789, "parameters": {"lr": 0.01, "opt": "a\x1bb"}}
    answer = {"search": {**search, "best": best}}
    said, _ = listed("show", "rates", **{path: answer, "GET /runs": RUNS_OF_ONE})
    assert 'Best:   point 3, loss=0.123457, lr=0.01 opt="a\\u001bb"\n' in said


def test_the_points_of_a_search_are_shown_with_what_was_chosen(script: Path) -> None:
    start(PlayedBroker(), script, "--search", "lr=uniform(0,1)", "--minimize", "loss",
          "--trials", "3", "--set", "epochs=2", "--name", "rates")  # fmt: skip
    folder = script.parent / "runs/rates"
    (folder / "0001").mkdir()
    (folder / "0001/manifest.json").write_text('{"parameters": {"lr": 0.25, "epochs": 2}}')
    runs = {"items": [{**RUNS["items"][0], "folder": str(folder)}]}
    said, _ = listed("show", "rates", **{"GET /runs": runs})
    assert "1      failed   2 of 5  epochs=2 lr=0.25  loss=0.123457" in said
    assert "2      waiting          epochs=2\n" in f"{said}\n".replace(" \n", "\n")


def test_of_several_runs_the_one_that_goes_on_is_stopped() -> None:
    said, broker = listed("stop", "rates", DELETE={})
    assert broker.asked[-1][0] == f"DELETE /runs/{'1' * 32}"
    assert said == "The run 'rates' is being stopped."
    with pytest.raises(RunError, match="Name one run"):
        listed("stop")


def test_kernels_of_failed_cells_are_kept_of_notebooks(script: Path) -> None:
    broker = PlayedBroker()
    with pytest.raises(RunError, match="'--keep-failed' is for notebooks: a script has no kernel"):
        start(broker, script, "--keep-failed")
    assert broker.asked == [] and not (script.parent / "runs").exists()
    notebook = script.with_name("train.ipynb")
    cell = {"cell_type": "code", "metadata": {}, "source": "1", "outputs": []}
    notebook.write_text(json.dumps({"nbformat": 4, "cells": [cell], "metadata": {}}))
    start(broker, notebook, "--keep-failed")
    assert broker.asked[0][1]["keep_failed"] is True


ENDED = {"items": [{"id": "0123abcd", "name": "rates", "ended_at": 5.0}]}


def test_what_failed_runs_again() -> None:
    broker = PlayedBroker({"GET /runs": ENDED})
    said = command.again.run(["again", "rates", "--time", "4:00:00", "--qos", "long"], broker)
    changes = {"time": "4:00:00", "qos": "long"}
    assert broker.asked[-1] == ("POST /runs/0123abcd/again", changes)
    assert "'rates'" in said and "portal-run show rates" in said
    with pytest.raises(RunError, match="You have no run 'other'"):
        command.again.run(["again", "other"], broker)


def test_a_run_is_repeated() -> None:
    drift = "Version 1 of 'Torch' can no longer be used."
    answers = {"POST /runs/0123abcd/repetitions": {"name": "rates-2", "drift": [drift]}}
    broker = PlayedBroker({"GET /runs": ENDED, **answers})
    said = command.again.run(["repeat", "rates"], broker)
    assert "Run 'rates-2' repeats 'rates'." in said and drift in said


def test_a_run_waits_while_the_portal_is_away_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [BrokerError("Nobody there.", away=True)] * 3 + [{"items": []}]
    clock, told = [1000.0], []

    def ask(self: Broker, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(Broker, "ask", ask)
    monkeypatch.setattr(portal_error.time, "sleep", sleep)
    monkeypatch.setattr(portal_error.time, "monotonic", lambda: clock[0])
    patient = portal_error.Patience(Broker("/nowhere").ask, 600, told.append)
    assert patient.ask("GET", "/runs") == {"items": []}
    assert told == ["The portal does not answer. The request is repeated for up to 10 min."]
    answers[:] = [BrokerError("You may not.", 403)]
    with pytest.raises(BrokerError, match="You may not"):
        patient.ask("POST", "/runs", {})
    answers[:] = [BrokerError("Nobody there.", away=True)] * 1000
    with pytest.raises(BrokerError, match="Nobody there"):
        patient.ask("POST", "/runs", {})
    assert 1600 <= clock[0] < 1603


def test_a_kernel_that_is_missing_is_refused_before_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "data/kernels/mine"
    own.mkdir(parents=True)
    (own / "kernel.json").write_text('{"argv": ["x"], "display_name": "x", "language": "x"}')
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    notebook = tmp_path / "train.ipynb"
    notebook.write_text('{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}')
    broker = PlayedBroker()
    broker.items = [{"environment": "julia", "kernels": ["julia-1.9"]}, {"environment": "new"}]
    with pytest.raises(RunError, match=r"no kernel 'nim'. Its kernels: .*python3.*Choose one"):
        start(broker, notebook, "--kernel", "nim")
    with pytest.raises(RunError, match=r"no kernel 'python3'. Its kernels: "):
        start(broker, notebook, "--environment", "julia")
    assert not broker.asked and not (tmp_path / "runs").exists()
    start(broker, notebook)
    for kernel in ("julia-1.9", "MINE"):  # the user's own are in all environments
        start(broker, notebook, "--environment", "julia", "--kernel", kernel)
    for environment in ("new", "unknown"):
        start(broker, notebook, "--environment", environment, "--kernel", "nim")
    assert len(broker.asked) == 5
