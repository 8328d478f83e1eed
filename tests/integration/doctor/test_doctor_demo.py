"""``portal doctor`` on the running demo, as the Hub's account: a real Slurm, sudo, LDAP and Hub."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "deploy/demo/jupyterhub_config.py"

Findings = dict[str, dict[str, str]]


def examine(
    demo: Any, *options: str, user: str | None = "portal", config: Path = CONFIG
) -> Findings:
    """What the doctor finds, by the ids of its checks."""
    token = (demo.home.demo / "hub/proxy-token").read_text()
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PORTAL_DEMO_STATE": str(demo.home.run / "state.json"),
        "CONFIGPROXY_AUTH_TOKEN": token,
    }
    done = demo.run(
        [sys.executable, "-m", "portal", "doctor", "--json", f"-f={config}", *options],
        user=user if demo.people else None,
        env=env,
        check=False,
        timeout=120,
    )
    report = json.loads(done.stdout or f'{{"stderr": {json.dumps(done.stderr)}}}')
    assert "findings" in report, report
    found = {finding["id"]: finding for finding in report["findings"]}
    failures = [one for one in found.values() if one["level"] == "failure"]
    assert report["ok"] is not bool(failures)
    assert done.returncode == (1 if failures else 0)
    return found


def levels(findings: Findings, *levels: str) -> dict[str, str]:
    return {one["id"]: one["found"] for one in findings.values() if one["level"] in levels}


def test_the_demo_is_well(demo: Any) -> None:
    found = examine(demo, "--person=ada")
    assert levels(found, "failure") == {}
    assert "Slurm" in found["slurm"]["found"]
    assert "8 of 8" in found["slurm"]["found"]
    for name in ("ldap", "ldap-refresh", "slurm-accounting", "environments", "proxy", "https",
                 "origins"):  # fmt: skip
        assert found[name]["level"] == "ok", found[name]


def test_the_rights_of_the_hubs_account(demo: Any) -> None:
    if not demo.people:
        pytest.skip("the one-account form has no account of the Hub's own")
    found = examine(demo)
    # More than the guide gives it: the demo's admins can drain nodes.
    assert "Administrator" in found["slurm-rights"]["found"]
    assert found["slurm-rights"]["level"] == "warning"
    for name in ("sudo", "sudo-narrow", "hub-account", "homes", "job-logs",
                 "project-folders"):  # fmt: skip
        assert found[name]["level"] == "ok", found[name]
    assert "sbatch as" in found["sudo"]["found"]
    assert "keeps ACLs" in found["project-folders"]["found"]


def test_slurms_commands_run_in_containers(demo: Any) -> None:
    """They are tried in the image, and a library that was forgotten is named with its place."""
    if not demo.people:
        pytest.skip("the one-account form may be root's, who runs no images")
    found = examine(demo, "--only=apptainer-commands")["apptainer-commands"]
    assert found["level"] == "ok" and "run in 'jupyterlab'" in found["found"], found
    config = demo.home.scratch / "forgotten.py"
    config.write_text(
        f"load_subconfig({str(CONFIG)!r})\n"
        "bound = c.PortalSpawner.commands_in_containers\n"
        "c.PortalSpawner.commands_in_containers = [x for x in bound if 'slurm-wlm' not in x]\n"
    )
    found = examine(demo, "--only=apptainer-commands", config=config)["apptainer-commands"]
    config.unlink()
    assert found["level"] == "warning" and "libslurmfull.so" in found["found"], found
    assert "slurm-wlm/libslurmfull.so" in found["mend"], found


def test_an_account_without_rights(demo: Any) -> None:
    if not demo.people:
        pytest.skip("the one-account form has no other account")
    # Ada cannot read the Hub's secrets, so only what needs none of them is asked.
    only = [f"--only={name}" for name in ("sudo", "sudo-narrow", "slurm-rights")]
    found = examine(demo, *only, user="ada")
    assert found["sudo"]["level"] == "failure"
    assert "deploy/sudoers" in found["sudo"]["mend"]
    assert found["slurm-rights"]["level"] == "warning"
    assert "adminlevel=Operator" in found["slurm-rights"]["mend"]


def test_root_is_told_to_ask_as_the_hub(demo: Any) -> None:
    if not demo.people:
        pytest.skip("the one-account form is not root's")
    found = examine(demo, "--only=sudo", "--only=slurm-rights", user="root")
    assert set(levels(found, "skipped")) == {"sudo", "slurm-rights"}
    assert "sudo -u portal portal doctor" in found["sudo"]["mend"]


def test_a_directory_that_is_down(demo: Any) -> None:
    demo.control("stop", "slapd")
    try:
        found = examine(demo, "--only=ldap", "--only=slurm")
    finally:
        demo.control("start", "slapd")
    assert found["ldap"]["level"] == "failure"
    assert "ldap://127.0.0.1" in found["ldap"]["found"]
    assert "ldapwhoami" in found["ldap"]["mend"]
    assert found["slurm"]["level"] == "ok"


def test_a_slurm_that_is_down_is_told_once(demo: Any) -> None:
    demo.stop_slurmctld()
    try:
        found = examine(demo, "--timeout=60")
    finally:
        demo.start_slurmctld()
    assert found["slurm"]["level"] == "failure"
    assert found["slurm"]["mend"]
    assert set(levels(found, "failure")) == {"slurm"}
    assert found["slurm-gpus"]["level"] == "skipped"


def test_the_service_answers_through_the_proxy(demo: Any) -> None:
    from hub_client import Person

    def environments(name: str) -> Any:
        person = Person(demo.url, name)
        answer = person.http.get(
            "/services/portal/api/v1/environments", headers={"Accept": "text/html"}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    body = environments("ada")
    assert {item["name"] for item in body["items"]} >= {"jupyterlab", "python-venv", "modules"}
    assert "errors" not in body
    assert environments("grace")["errors"] == []
