"""A session, from launch to stop, on the real demo."""

from __future__ import annotations

from typing import Any

import httpx
import local_hosts
import pytest
from hub_client import Person
from jobs import living_jobs, only_job
from terminal import session_token, terminal


def test_a_gpu_session_in_the_venv(demo: Any, ada: Person) -> None:
    answer = ada.launch({"environment": "python-venv", "gpus": 2, "gpu_type": "v100"})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    (row,) = living_jobs(demo, "ada")
    assert row.state == "RUNNING"
    assert row.gres.endswith("gpu:v100:2")
    seen = terminal(ada, "echo [$CUDA_VISIBLE_DEVICES] $PORTAL_JOB_ID; id -un")
    assert "[0,1]" in seen
    assert row.id in seen
    assert "ada" in seen.splitlines()[-1]
    ada.stop()
    assert living_jobs(demo, "ada") == []


def test_a_container_session_has_a_clean_environment(demo: Any, ada: Person) -> None:
    answer = ada.launch({"environment": "jupyterlab", "gpus": 1})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    seen = terminal(ada, "echo c=$APPTAINER_CONTAINER g=$CUDA_VISIBLE_DEVICES u=$PYTHONUSERBASE")
    assert "jupyterlab" in seen.split("g=")[0]
    assert "g=0" in seen
    assert "/.portal/jupyterlab" in seen


def test_a_modules_session_has_its_modules(demo: Any, ada: Person) -> None:
    answer = ada.launch({"environment": "modules"})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    assert "cuda-demo" in terminal(ada, "echo $LOADEDMODULES")


def test_a_cpu_session_runs_away_from_the_gpus(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "python-venv", "gpus": 0})
    ada.wait_ready()
    (row,) = living_jobs(demo, "ada")
    assert row.node.startswith("cpu")
    assert "gpu" not in row.gres


def test_two_named_sessions_at_once(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "python-venv"})
    ada.launch({"environment": "python-venv"}, "second")
    ada.wait_ready()
    ada.wait_ready("second")
    assert len(living_jobs(demo, "ada")) == 2
    ada.stop("second")
    assert len(living_jobs(demo, "ada")) == 1
    ada.api("DELETE", ada.server_path("second"), {"remove": True})


def test_no_token_on_any_command_line_or_in_slurms_records(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "jupyterlab"})
    ada.wait_ready()
    job = only_job(demo, "ada")
    token = session_token(ada)
    lines = demo.run(["ps", "-eww", "-o", "args"]).stdout
    assert "portal_session" in lines
    shown = demo.run(["scontrol", "show", "job", job]).stdout
    assert f"JobId={job} " in shown
    log = demo.run(["cat", str(demo.home.log / "hub.out")]).stdout
    assert "/hub/api/users/ada/server" in log
    for text in (lines, shown, log):
        assert token not in text


def test_one_person_cannot_reach_anothers_session_or_files(
    demo: Any, ada: Person, barbara: Person
) -> None:
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    terminal(ada, "umask 077; echo secret > mine.txt")
    assert ada.session("GET", "api/contents/mine.txt").status_code == 200
    barbara.api("GET", "/user")
    answer = local_hosts.request(
        "GET",
        f"{ada.session_url()}api/contents/mine.txt",
        headers={"Authorization": f"token {barbara.token}"},
    )
    assert answer.status_code in (403, 404)
    if demo.people:
        home = demo.run(["sh", "-c", "echo ~ada"]).stdout.strip()
        read = demo.run(["cat", f"{home}/mine.txt"], user=demo.user("barbara"), check=False)
        assert read.returncode != 0


def test_a_jobs_log_is_the_hubs_alone(demo: Any, ada: Person) -> None:
    if not demo.people:
        pytest.skip("one account: there is nobody to hide a log from")
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    job = only_job(demo, "ada")
    out = demo.run(["scontrol", "show", "job", job]).stdout
    log = next(w.split("=", 1)[1] for w in out.split() if w.startswith("StdOut="))
    assert demo.run(["cat", log], user=demo.user("ada"), check=False).returncode != 0
    assert demo.run(["cat", log], user="portal", check=False).returncode == 0
    assert demo.run(["cat", log], user=demo.user("barbara"), check=False).returncode != 0
    # Nor can anyone make, list, link or replace a file there.
    folder = log.rpartition("/")[0]
    for command in (
        ["touch", f"{folder}/session-9999.log"],
        ["ls", folder],
        ["ln", "-s", "/etc/passwd", f"{folder}/session-9999.log"],
        ["mv", log, f"{folder}/mine"],
        ["rm", "-f", log],
    ):
        assert demo.run(command, user=demo.user("barbara"), check=False).returncode != 0, command


def test_what_is_installed_stays_with_its_environment(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    base = terminal(ada, "echo $PYTHONUSERBASE").strip()
    assert base.endswith("/.portal/python-venv")
    code = (
        "d=$(python3 -c 'import site; print(site.getusersitepackages())') && mkdir -p $d && "
        "echo 'X = 1' > $d/only_here.py && echo 'raise SystemExit(9)' > $d/tornado.py && "
        "python3 -c 'import only_here; print(only_here.X)'"
    )
    assert terminal(ada, code).strip().splitlines()[-1] == "1"
    ada.stop()
    # It cannot break the server, it is still there, and it is not in another environment.
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    assert terminal(ada, "python3 -c 'import only_here; print(only_here.X)'").strip() == "1"
    ada.stop()
    ada.launch({"environment": "jupyterlab"})
    ada.wait_ready()
    assert "ModuleNotFoundError" in terminal(ada, "python3 -c 'import only_here'")
    terminal(ada, f"rm -rf {base}")


def test_the_service_lists_the_environments(demo: Any, ada: Person) -> None:
    ada.api("GET", "/user")
    answer = httpx.get(
        f"{demo.url}/services/portal/api/v1/environments",
        headers={"Authorization": f"token {ada.token}"},
        timeout=60,
    )
    names = [item["name"] for item in answer.json()["items"]]
    assert {"jupyterlab", "python-venv", "modules"} <= set(names)
