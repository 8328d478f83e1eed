"""Searches: points that ask for their parameters, which Optuna chooses by what the points before
have reported."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from run_site import PlayedService, RunSite, manifest, printed, wait_until

from portal.models.session.run import PointState
from portal.models.session.search import Search
from portal.work.run.results.trials import choose, trials_of
from portal.work.run.tables.points import PointKeys

SEARCH: dict[str, Any] = {
    "parameters": [
        {"name": "x", "kind": "float", "low": -4.0, "high": 4.0},
        {"name": "kind", "kind": "choice", "choices": ["near", "far"]},
    ],
    "metric": "distance",
    "direction": "minimize",
    "seed": 3,
}


class Choices:
    """The portal's choice by the reports that the played service has taken."""

    def __init__(self, service: PlayedService) -> None:
        self.search = Search.model_validate(SEARCH)
        self.service = service
        self.chosen: dict[int, dict[str, float]] = {}

    def __call__(self, number: int) -> dict[str, Any]:
        if number not in self.chosen:
            ends = [PointKeys(point, PointState(self.service.last(point)["state"]), None,
                              self.service.last(point)["metrics"], {}, None, None)
                    for point in self.chosen]  # fmt: skip
            trials = trials_of(self.search, self.chosen, ends)
            self.chosen[number] = choose(self.search, trials, number)
        return self.search.values(self.chosen[number])


def test_points_of_a_script_get_their_parameters(site: RunSite, service: PlayedService) -> None:
    service.choose = Choices(service)
    source = site.script(
        "import json, os, sys\nfrom portal_metrics import log\n"
        "values = json.loads(os.environ['PORTAL_PARAMETERS'])\n"
        "assert f\"--x={values['x']}\" in sys.argv and values['note'] == 'same', sys.argv\n"
        "assert values['kind'] in ('near', 'far')\n"
        "log(distance=(values['x'] - 1) ** 2 + (values['kind'] == 'far'))\n"
    )
    plan = site.plan(source, [{"note": "same"}] * 4, search=SEARCH)
    assert json.loads((plan.folder / "run.json").read_text())["search"] == SEARCH
    for number in range(4):
        assert site.execute(plan, number)[0] == 0
    values = [manifest(plan.folder / f"{number:04d}")["parameters"] for number in range(4)]
    assert len({each["x"] for each in values}) == 4 and {each["note"] for each in values} == {
        "same"
    }
    failed = {**manifest(plan.folder / "0003"), "state": "failed"}  # or it would not run again
    (plan.folder / "0003/manifest.json").write_text(json.dumps(failed))
    again = site.execute(plan, 3, SLURM_RESTART_COUNT="1")
    assert again[0] == 0
    assert manifest(plan.folder / "0003-2")["parameters"] == values[3], "a later attempt"
    # A run that repeats this one asks nobody.
    other = site.plan(source, [{"note": "same"}] * 4, search=SEARCH)
    site.run = {"origin": {"id": plan.id, "user": "ada", "folder": str(plan.folder)}}
    service.choose = lambda number: {}
    assert site.execute(other, 2)[0] == 0
    assert manifest(other.folder / "0002")["parameters"] == values[2]


@pytest.mark.parametrize("search", [None, SEARCH])
def test_a_point_that_prunes_itself(
    site: RunSite, service: PlayedService, search: dict[str, Any] | None
) -> None:
    service.choose = lambda number: {"x": 0.25, "kind": "far"}
    raises = "import optuna\nraise optuna.TrialPruned('at step 3')"
    said = "TrialPruned: at step 3"
    for source, message in (
        (site.script(raises), f"optuna.exceptions.{said} (exit code 1)"),
        (site.notebook(raises, parameters="x = 1.0\nkind = 'near'"), f"{said} (cell "),
    ):
        plan = site.plan(source, **({"search": search} if search else {}))
        assert site.execute(plan)[0] == (0 if search else 1)
        last = service.last(0)
        assert last["state"] == ("succeeded" if search else "failed")
        assert last["message"].startswith(f"Pruned. {message}" if search else message)


def test_a_notebook_has_them_too_and_must_log_the_metric(
    site: RunSite, service: PlayedService
) -> None:
    service.choose = lambda number: {"x": 0.25, "kind": "far"}
    source = site.notebook("print(x, kind)", parameters="x = 1.0\nkind = 'near'")
    plan = site.plan(source, search=SEARCH)
    code, said = site.execute(plan)
    assert code == 1 and printed(plan.folder / "0000") == "0.25 far\n"
    assert "The point has no value of 'distance', the metric of the search" in said
    assert service.last(0)["state"] == "failed"


def test_a_portal_that_is_away_for_a_while(site: RunSite, service: PlayedService) -> None:
    service.choose, service.away = lambda number: {"x": 0.25, "kind": "far"}, 2
    plan = site.plan(
        site.script("from portal_metrics import log\nlog(distance=1)\n"), search=SEARCH
    )
    assert site.execute(plan)[0] == 0
    assert {"point": 0} in service.refused or service.last(0)["state"] == "succeeded"


@pytest.mark.parametrize("answer", [{"x": 1}, {"x": [1], "kind": "far"}, {}])
def test_other_answers_are_refused(site: RunSite, service: PlayedService, answer: Any) -> None:
    service.choose = lambda number: answer
    plan = site.plan(site.script("raise SystemExit(9)"), search=SEARCH)
    code, _ = site.execute(plan)
    assert code == 72 and service.last(0)["state"] == "failed"


def test_a_point_that_waits_for_its_parameters_is_stopped(
    site: RunSite, service: PlayedService
) -> None:
    service.away = 10**6
    process = site.begin(site.plan(site.script("raise SystemExit(9)"), search=SEARCH))
    wait_until(lambda: {"point": 0} in service.refused)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 72
    assert "The point was stopped before it got its parameters." in said
