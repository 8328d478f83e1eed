"""Slurm's commands and `module` in a session's terminals and kernels, on the real demo."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hub_client import Person
from jobs import only_job
from terminal import session_token, terminal

# What a job of one's own has in its environment: as KEY=VALUE, one a line.
JOB = "#!/bin/sh\nenv | sort\n"


@pytest.fixture(scope="module", params=["python-venv", "jupyterlab"])
def session(request: Any, demo: Any, person: Any) -> Iterator[tuple[Person, str]]:
    """Ada's session with two GPUs, on a node and in a container: (she, its job)."""
    ada = person("ada")
    ada.stop()
    options = {"environment": request.param, "gpus": 2, "cpus": 2, "memory": "3G"}
    answer = ada.launch(options)
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    yield ada, only_job(demo, "ada")
    ada.stop()


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def run(ada: Person, words: str) -> dict[str, str]:
    """The environment of a job that ``sbatch`` made of JOB, with these options, once it is over."""
    line = f"printf %s {shlex.quote(JOB)} > job.sh && sbatch --wait --output=job.out {words} job.sh"
    said = terminal(ada, f"{line} >&2 && cat job.out; rm -f job.sh job.out")
    assert "Submitted batch job" in said, said
    return variables(said)


def test_a_terminal_has_nothing_of_the_sessions_job(session: tuple[Person, str]) -> None:
    ada, job = session
    found = variables(terminal(ada, "env"))
    assert found["PORTAL_JOB_ID"] == job
    assert found["CUDA_VISIBLE_DEVICES"].count(",") == 1  # its GPUs are its own
    assert {name for name in found if name.startswith("SLURM_")} <= {"SLURM_CONF"}
    assert not {"JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "ENVIRONMENT"} & found.keys()


def test_a_kernel_has_nothing_of_it_either(session: tuple[Person, str]) -> None:
    ada, job = session
    made = ada.session("POST", "api/kernels", json={"name": "python3"})
    assert made.status_code == 201, made.text
    kernel = made.json()["id"]
    # Its connection file is on its command line; the brackets keep grep from finding itself.
    words = f"kernel-[{kernel[0]}]{kernel[1:]}"
    found = variables(
        terminal(
            ada,
            f"for p in /proc/[0-9]*; do grep -qs '{words}' $p/cmdline && "
            r"tr '\0' '\n' <$p/environ; done",
        )
    )
    ada.session("DELETE", f"api/kernels/{kernel}")
    assert found["PORTAL_JOB_ID"] == job and found["CUDA_VISIBLE_DEVICES"].count(",") == 1
    assert {name for name in found if name.startswith("SLURM_")} <= {"SLURM_CONF"}
    assert "JUPYTERHUB_API_TOKEN" not in found


def test_sbatch_makes_a_job_with_an_environment_of_its_own(session: tuple[Person, str]) -> None:
    ada, own = session
    token = session_token(ada)
    for words, cpus in (("--partition=gpu --cpus-per-task=1", "1"), ("--partition=gpu", None)):
        found = run(ada, words)
        assert found["SLURM_JOB_ID"] not in ("", own)
        assert found["SLURM_JOB_NAME"] == "job.sh"
        # DefMemPerCPU of the cluster; with the session's SLURM_MEM_PER_NODE, srun would refuse.
        assert found["SLURM_MEM_PER_CPU"] == "1000" and "SLURM_MEM_PER_NODE" not in found
        assert found.get("SLURM_CPUS_PER_TASK") == cpus
        assert "SLURM_JOB_GPUS" not in found and "CUDA_VISIBLE_DEVICES" not in found
        assert not {"APPTAINER_BIND", "SINGULARITY_BIND"} & found.keys()
        assert token not in str(found)


def test_a_job_with_a_gpu_has_its_own(session: tuple[Person, str]) -> None:
    found = run(session[0], "--partition=gpu --gpus=1 --mem-per-cpu=500")
    assert found["CUDA_VISIBLE_DEVICES"].count(",") == 0
    assert found["SLURM_GPUS_ON_NODE"] == "1" and found["SLURM_MEM_PER_CPU"] == "500"


def test_srun_is_a_job_that_squeue_lists(session: tuple[Person, str]) -> None:
    ada, own = session
    asked = "squeue --me --states=RUNNING --noheader --format=%i:%j"
    lines = terminal(ada, f"srun --job-name=mine --partition=cpu {asked}").split()
    names = dict(line.split(":", 1) for line in lines if ":" in line)
    assert names.pop(own).startswith("portal-")
    assert list(names.values()) == ["mine"]


def test_scancel_and_sinfo_know_the_cluster(session: tuple[Person, str]) -> None:
    ada, _ = session
    # Accounting hears of it a moment later.
    said = terminal(
        ada,
        "j=$(sbatch --parsable --hold --wrap true) && scancel $j && "
        "for i in $(seq 60); do sacct -n -X -j $j --format=state | grep CANCELLED && break; "
        "sleep 0.5; done; sinfo --noheader --format=%P",
    )
    assert "CANCELLED" in said and "gpu" in said


NOTEBOOK = """{"cells": [{"cell_type": "code", "id": "a", "execution_count": null, "metadata": {},
"outputs": [], "source": "!squeue -u $USER -h -o %u"}], "nbformat": 4, "nbformat_minor": 5,
"metadata": {"kernelspec": {"name": "python3", "display_name": "p", "language": "python"}}}"""
# As a person works there: who one is, which programs there are, what `pip install` does to them.
WORK = f"""echo who=$USER/$LOGNAME/$SHELL/$BASH
for p in python3 pip jupyter; do echo $p=$(command -v $p); done
pip install -q papermill 2>&1 | tail -n 3; echo papermill=$(command -v papermill)
printf %s {shlex.quote(NOTEBOOK)} > n.ipynb
papermill -k python3 n.ipynb p.ipynb; echo papermill-ended=$?
jupyter execute --output=j.ipynb n.ipynb; echo execute-ended=$?
echo own=$(grep -c '"ada' p.ipynb j.ipynb)
squeue -h -u $USER -o queue=%u; rm -f [npj].ipynb; pip uninstall -qy papermill"""


def works_as_its_environment(ada: Person, programs: str) -> None:
    """Look at a terminal of a session whose own programs are in the folder ``programs``."""
    said = terminal(ada, WORK)
    found = variables(said)
    assert found["who"].startswith("ada/ada//") and found["who"].endswith("/bash"), said
    for name in ("pip", "jupyter"):
        assert found[name] == f"{programs}/{name}", said
    assert found["python3"].startswith(programs.removesuffix("/local/bin")), said
    assert found["papermill"].endswith("/bin/papermill") and ".portal/" in found["papermill"], said
    assert (found["papermill-ended"], found["execute-ended"]) == ("0", "0"), said
    assert found["own"] == "p.ipynb:1 j.ipynb:1" and found["queue"] == "ada", said


def programs_of(demo: Any, name: str) -> str:
    """The folder of an environment's programs."""
    found = yaml.safe_load((demo.environments / f"{name}.yaml").read_text())
    return f"{found['path']}/bin" if "path" in found else "/usr/local/bin"


def test_a_terminal_is_the_environment(session: tuple[Person, str], demo: Any) -> None:
    ada, _ = session
    chosen = ada.server()["user_options"]["environment"]
    works_as_its_environment(ada, programs_of(demo, chosen))


def test_a_terminal_of_modules_is_the_environment(demo: Any, person: Any) -> None:
    barbara = person("barbara")
    barbara.stop()
    answer = barbara.launch({"environment": "modules", "gpus": 0, "cpus": 1, "memory": "2G"})
    assert answer.status_code in (201, 202), answer.text
    barbara.wait_ready()
    found = variables(
        terminal(
            barbara,
            "for p in python3 pip jupyter; do echo $p=$(command -v $p); done; "
            "echo demo=$CUDA_DEMO_VERSION; echo loaded=$LOADEDMODULES",
        )
    )
    barbara.stop()
    programs = programs_of(demo, "modules")
    assert {found[name] for name in ("python3", "pip", "jupyter")} == {
        f"{programs}/{name}" for name in ("python3", "pip", "jupyter")
    }
    assert found["loaded"] and found["demo"]


def test_modules_are_found_and_loaded(session: tuple[Person, str]) -> None:
    said = terminal(
        session[0], "bash -lc 'module avail; module load cuda-demo && echo got=$LOADEDMODULES'"
    )
    assert "gcc-demo/13.2" in said and "got=cuda-demo/1.0" in said
    # As a person types it, in the shell that the terminal opens.
    assert "cuda-demo/1.0" in terminal(session[0], "module load cuda-demo; echo $LOADEDMODULES")
