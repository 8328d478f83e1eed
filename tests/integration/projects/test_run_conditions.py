"""Conditions of a project's run: what its job reports once, as the portal takes it and a file of
the project has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from portal_session.runs.execution.reports import _without_known
from run_site import RunSite, played_service

from portal.models.session.run_conditions import RunConditions

WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgSign=false")


def test_the_first_point_of_a_projects_run_reports_them(tmp_path: Path) -> None:
    with played_service() as service:
        site = RunSite(tmp_path, service)
        source = site.script("print(1)\n")
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "a"]):
            subprocess.run(["git", *WHO, *command], cwd=site.work, check=True)
        plan = site.plan(source, [{}, {}])
        try:
            for number in (0, 1):
                assert site.execute(plan, number, PORTAL_PROJECT="proteins")[0] == 0
        finally:
            site.end()
    known = RunConditions.model_validate(service.last(0)["conditions"])
    conditions, software = known.conditions, known.software
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=site.work, capture_output=True, text=True, check=True)
    assert conditions.commit == commit.stdout.strip() and not conditions.differs
    assert conditions.script.startswith("sha256:") and conditions.gpus == "none"
    assert software.python.startswith("3.")
    assert any(package.lower().startswith("ipykernel==") for package in software.packages)
    assert "conditions" not in service.last(1)  # one point is enough


def test_a_run_of_no_project_reports_none(tmp_path: Path) -> None:
    with played_service() as service:
        site = RunSite(tmp_path, service)
        try:
            assert site.execute(site.plan(site.script("print(1)\n")))[0] == 0
        finally:
            site.end()
    assert all("conditions" not in report for report in service.reports)


def test_they_are_sent_once() -> None:
    report = {"state": "running", "curves": {}, "conditions": {"software": {"python": "3.11"}}}
    assert _without_known(report, {}) == {k: v for k, v in report.items() if k != "curves"}
    assert _without_known({**report, "cell": 2}, report) == {"state": "running", "cell": 2}
