"""Searches: what portal-run reads of its options, and how a point asks for its parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs import RunError, plan
from portal_session.runs.execution.metrics import Metrics
from portal_session.runs.parameters import Parameter
from portal_session.runs.portal_run import command
from portal_session.runs.search import question
from portal_session.runs.search.question import ask_parameters, objective_missing
from portal_session.runs.search.ranges import read_ranges
from portal_session.runs.search.repeated import parameters_before
from portal_session.runs.start import prepare
from portal_session.service import ServiceError

from portal.models.session.search import Search

KNOWN = {
    "lr": Parameter("lr", "float", "0.1", ""),
    "depth": Parameter("depth", "int", "18", ""),
    "opt": Parameter("opt", "str", "'adam'", ""),
}
ENVIRON = {"PORTAL_ENVIRONMENT": "pytorch"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("lr=log(1e-5, 1e-1)", {"kind": "float", "low": 1e-5, "high": 0.1, "log": True}),
        ("lr=uniform(0,0.5)", {"kind": "float", "low": 0.0, "high": 0.5}),
        ("lr=uniform(0,0.5,0.1)", {"kind": "float", "low": 0.0, "high": 0.5, "step": 0.1}),
        ("depth=int(-2,8)", {"kind": "int", "low": -2, "high": 8}),
        ("depth=int(2,8,2)", {"kind": "int", "low": 2, "high": 8, "step": 2}),
        ("depth=logint(16,1024)", {"kind": "int", "low": 16, "high": 1024, "log": True}),
        ("opt=[adam, sgd]", {"kind": "choice", "choices": ["adam", "sgd"]}),
        ('opt=["a,b", "c"]', {"kind": "choice", "choices": ["a,b", "c"]}),
        ("lr=[1,2]", {"kind": "choice", "choices": [1.0, 2.0]}),
    ],
)
def test_ranges(text: str, read: dict[str, Any]) -> None:
    for known in (KNOWN, None):
        (found,) = read_ranges([text], known)
        assert {**found, "name": ""} == {"name": "", **read}
        Search.model_validate({"parameters": [found], "metric": "m", "direction": "minimize"})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lr", "'lr' is not a valid search"),
        ("=log(1,2)", "is not a valid search"),
        ("lr=0.1,0.2", "is not a valid range of 'lr'"),
        ("lr=normal(0,1)", "is not a valid range of 'lr'"),
        ("lr=log(0,1)", "must begin above 0"),
        ("lr=uniform(2,1)", "Give the smaller one first"),
        ("lr=uniform(1)", "a minimum and a maximum and, optionally, a step"),
        ("lr=log(1,2,3)", "needs a minimum and a maximum."),
        ("lr=uniform(0,inf)", "'inf' in the range of 'lr' is not a number"),
        ("lr=uniform(0,1e301)", "or is too large"),
        ("lr=uniform(0,1,0)", "The step of 'lr' must be above 0"),
        ("depth=int(0.5,2)", "is not a whole number"),
        ("depth=int(0,99999999999999999999)", "or is too large"),
        ("depth=log(1,100)", "'depth' is a whole number in the notebook"),
        ("opt=int(1,2)", "'opt' is a string in the notebook"),
        ("opt=[]", "needs 1 to 100 values"),
        ("opt=[[1]]", "must be a number, a string"),
        ("depth=[a]", "'depth' is a number in the notebook"),
        ("width=int(1,2)", "has no parameter 'width'"),
        ("lr=" + "(" * 50_000, "is not a valid range of 'lr'"),
        ("lr=" + "[" * 50_000 + "]", "longer than 10,000 characters"),
    ],
)
def test_ranges_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(RunError) as error:
        read_ranges([text], KNOWN)
    assert sentence in str(error.value)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plan, "git_state", lambda folder: None)
    path = tmp_path / "train.py"
    path.write_text("print('on')\n")
    return path


def prepared(script: Path, *argv: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Content of run.json, and what the portal is asked for."""
    options = command.parser().parse_args([str(script), *argv])
    made, body = prepare(command.request_of(options), ENVIRON)
    return json.loads((made.folder / "run.json").read_text()), body


def test_a_search_is_frozen_and_asked_for(script: Path) -> None:
    content, body = prepared(
        script, "--search", "lr=log(1e-5,1e-1)", "--search", "opt=[adam,sgd]", "--trials", "7",
        "--maximize", "accuracy", "--seed", "3", "--set", "epochs=2",
    )  # fmt: skip
    assert content["points"] == [{"epochs": 2}] * 7 and body["points"] == 7
    assert content["search"] == body["search"]
    assert Search.model_validate(body["search"]).seed == 3
    content, body = prepared(script, "--search", "lr=uniform(0,1)", "--minimize", "loss")
    assert body["points"] == 50 and body["search"]["seed"] == content["seed"] >= 0
    content, body = prepared(script, "--set", "lr=1")
    assert "search" not in content and "search" not in body


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--trials", "3"], "require '--search'"),
        (["--maximize", "a"], "require '--search'"),
        (["--search", "a=int(1,2)"], "needs either '--maximize METRIC' or '--minimize METRIC'"),
        (["--search", "a=int(1,2)", "--maximize", "a", "--minimize", "b"], "needs either"),
        (["--search", "a=int(1,2)", "--maximize", "a\n"], "The name of a metric"),
        (["--search", "a=int(1,2)", "--maximize", "m", "--set", "a=1"], "is both set and searched"),
        (["--search", "a=int(1,2)", "--maximize", "m", "--set", "b=1,2"], "'b' has 2 values"),
        (["--search", "a=int(1,2)", "--maximize", "m", "--sample", "2"], "Remove '--list'"),
        (["--search", "a=int(1,2)", "--maximize", "m", "--trials", "0"], "from 1 to 1000"),
        (["--search", "a=int(1,2)", "--search", "a=int(1,3)", "--maximize", "m"], "twice"),
    ],
)
def test_options_that_are_refused(script: Path, argv: list[str], sentence: str) -> None:
    with pytest.raises(RunError) as error:
        prepared(script, *argv)
    assert sentence in str(error.value) and not (script.parent / "runs").exists()


# -- a point's question ----------------------------------------------------------------------------

SEARCH = {"parameters": [{"name": "x"}], "metric": "loss", "direction": "minimize"}


class Service:
    """The portal: its ``answers`` in turn, of which the last is repeated."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        assert (method, path, body) == ("POST", question.PATH, {"point": 4})
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def asked(service: Any, reason: str = "", patience: float = 60.0) -> Any:
    return await ask_parameters(service, SEARCH, 4, lambda: reason, patience)


async def test_a_point_asks_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "_FIRST", 0.01)
    young = ServiceError("The portal has not seen this session's job yet.", 403)
    service = Service(ServiceError("away", 503), young, {"parameters": {"x": 0.5}})
    assert await asked(service) == {"x": 0.5}
    assert service.asked == 3


async def test_a_point_that_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "_FIRST", 0.01)
    away = Service(ServiceError("The portal cannot be reached.", 503))
    with pytest.raises(RunError, match=r"for 0 min: The portal cannot be reached\. Run this"):
        await asked(away, patience=0.05)
    ended = Service(ServiceError("This run has already ended.", 409))
    with pytest.raises(RunError, match=r"chose no parameters: This run has already ended\.$"):
        await asked(ended)
    assert ended.asked == 1
    with pytest.raises(RunError, match="The point was stopped before it got its parameters"):
        await asked(away, reason="The point was stopped")
    with pytest.raises(RunError, match="address is not set"):
        await asked(None)


@pytest.mark.parametrize(
    "answer",
    [{}, {"parameters": []}, {"parameters": {"y": 1}}, {"parameters": {"x": [1]}},
     {"parameters": {"x": 1, "y": 2}}],
)  # fmt: skip
async def test_answers_that_are_refused(answer: Any) -> None:
    with pytest.raises(RunError):
        await asked(Service(answer))


def test_a_repetition_has_the_parameters_of_its_original(tmp_path: Path) -> None:
    def attempt(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(text)

    assert parameters_before(tmp_path / "gone", 4, SEARCH) is None
    assert parameters_before(tmp_path, 4, SEARCH) is None
    attempt("0004", json.dumps({"parameters": {"x": 0.5, "note": "a"}}))
    attempt("0004-2", json.dumps({"parameters": {"x": 0.25}}))
    for number, text in enumerate(("{", "[]", '{"parameters": {}}', '{"parameters": {"x": []}}')):
        attempt(f"0004-{number + 10}", text)
    attempt("0005", json.dumps({"parameters": {"x": 9}}))
    assert parameters_before(tmp_path, 4, SEARCH) == {"x": 0.25}


def test_the_searched_metric_is_kept_among_many(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({f"m{number}": 1 for number in range(80)}) + '\n{"loss": 2}\n')
    newest = Metrics(path, "loss").newest()
    assert newest["loss"] == 2.0 and len(newest) == 50
    assert "loss" not in Metrics(path).newest()
    assert objective_missing(SEARCH, newest) == ""
    assert "no value of 'loss'" in objective_missing(SEARCH, {"accuracy": 1.0})
