"""The command of a session in each kind of environment, and what the job script does before it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_launch_request import run_script

from portal.errors import ConfigurationError
from portal.gpus import VENDORS, GpuVendor
from portal.launch.cause import cause_of
from portal.launch.container import (
    image_environment,
    kernel_container,
    node_copy,
    script_environment,
    session_command,
    session_script,
    session_variables,
)
from portal.models.catalog.environment import Environment
from portal.models.session.resources import Resources

IMAGE = f"/i/{'a' * 64}-{'b' * 10}.sif"
NODE = {"home": "/h", "apptainer": "/bin/apptainer"}


def container(**more: Any) -> Environment:
    return Environment(name="c", title="C", kind="container", **{"image": IMAGE, **more})


def test_the_server_runs_in_the_python_that_the_build_made_for_it() -> None:
    python = "/opt/data-scientist-portal/bin/python3"
    argv = session_command(container(python=python), Resources(), **NODE)
    assert argv[argv.index(IMAGE) + 1 :] == [python, "-I", "-m", "portal_session"]
    argv = session_command(container(), Resources(), **NODE, module="portal_session.check")
    assert argv[-4:] == ["python3", "-I", "-m", "portal_session.check"]


def test_a_server_beside_runs_on_the_node_and_knows_its_container() -> None:
    environment = container(server="beside", binds=({"source": "/data"},))
    argv = session_command(environment, Resources(gpus=1), **NODE, beside="/opt/portal-session")
    assert argv == ["/opt/portal-session/bin/python3", "-I", "-m", "portal_session"]
    told = json.loads(kernel_container(environment, Resources(gpus=1), **NODE))
    inside = session_command(container(binds=({"source": "/data"},)), Resources(gpus=1), **NODE)
    assert [*told["exec"], told["image"]] == inside[: inside.index(IMAGE) + 1]
    assert "--nv" in told["exec"]
    assert told["roots"] == ["/h", "/data"]
    with pytest.raises(ConfigurationError, match=r"c\.Images\.beside"):
        session_command(environment, Resources(), **NODE)


def test_what_a_session_is_told() -> None:
    kernels = ({"name": "ir", "title": "R 4.2", "language": "R"},)
    told = session_variables(
        container(kernels=kernels, starters=("r.ipynb",), variables={"A": "b"}), Resources(), **NODE
    )
    assert (told["A"], told["PYTHONUSERBASE"], told["PORTAL_ENVIRONMENT"]) == (
        "b",
        "/h/.portal/c",
        "c",
    )
    assert json.loads(told["PORTAL_KERNELS"]) == [*kernels]
    assert told["PORTAL_STARTERS"] == "1"
    assert "PORTAL_CONTAINER" not in told
    assert "PORTAL_CONTAINER" in session_variables(container(server="beside"), Resources(), **NODE)


def test_only_what_a_build_has_named_by_its_content_is_taken_from_the_nodes_cache() -> None:
    assert node_copy(container(), "/local/images/") == f"/local/images/{'a' * 64}-{'b' * 10}"
    assert node_copy(container(), "") == ""
    for image in ("/i/my.sif", f"/i/{'a' * 64}-{'b' * 10}", f"/i/{'a' * 63}-{'b' * 10}.sif"):
        assert node_copy(container(image=image), "/local") == ""
    modules = Environment(name="v", title="V", kind="venv", path="/v")
    assert node_copy(modules, "/local") == ""
    assert image_environment(modules, apptainer="a", verify=True) == {}


def run_in(
    environment: Environment, argv: list[str], apptainer: Path, **more: Any
) -> subprocess.CompletedProcess[str]:
    env = script_environment(environment, {"A": "b c", "PYTHONUSERBASE": "/h/.portal/c"})
    env |= image_environment(environment, apptainer=str(apptainer), **more)
    return run_script(env, *argv)


@pytest.fixture
def apptainer(tmp_path: Path) -> Path:
    """Stands for Apptainer where only its exit status counts: images called broken have no good
    signature. The real one signs in tests/integration/images/test_images_building.py."""
    program = tmp_path / "bin/apptainer"
    program.parent.mkdir()
    program.write_text(
        """#!/bin/sh
        case "$*" in verify*broken*) exit 255;; esac
        [ -n "$APPTAINER_KEYSDIR" ] || exit 0
        echo "$@" >"$0.log"
        stat -c %a "$APPTAINER_KEYSDIR" >>"$0.log"
        cat "$APPTAINER_KEYSDIR/pgp-public" >>"$0.log"
        echo "$APPTAINER_KEYSDIR" >>"$0.log"
        """
    )
    program.chmod(0o755)
    return program


def test_no_session_starts_from_an_image_with_a_broken_signature(
    apptainer: Path, tmp_path: Path
) -> None:
    began = ["sh", "-c", "echo began"]
    keys = tmp_path / "public"
    keys.write_text("the keys\n")
    good = run_in(container(), began, apptainer, verify=True, keys=str(keys))
    assert (good.stdout, good.returncode) == ("began\n", 0), good.stderr
    said, mode, read, place = Path(f"{apptainer}.log").read_text().splitlines()
    assert (said, mode, read) == (f"verify --all --local {IMAGE}", "700", "the keys")
    assert not Path(place).exists()
    gone = run_in(container(), began, apptainer, verify=True, keys="/nonexistent")
    assert (gone.stdout, gone.returncode) == ("", 73)
    broken = run_in(container(image="/i/broken.sif"), began, apptainer, verify=True)
    assert (broken.stdout, broken.returncode) == ("", 73)
    assert "signature of its image is missing or broken (/i/broken.sif)" in cause_of(broken.stderr)
    off = run_in(container(image="/i/broken.sif"), began, apptainer)
    assert off.stdout == "began\n"


def test_the_nodes_own_copy_takes_the_place_of_the_image(apptainer: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    copy = Path(node_copy(container(), str(cache)))
    who = {"node_copy": str(copy), "account": "root", "verify": True}
    me = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
    who["account"] = me

    def image() -> str:
        return run_in(container(), ["echo", IMAGE], apptainer, **who).stdout.strip()

    assert image() == IMAGE  # not unpacked here
    copy.mkdir(parents=True)
    cache.chmod(0o755)
    copy.chmod(0o755)
    assert image() == str(copy)
    for folder in (cache, copy):
        folder.chmod(0o777)
        assert image() == IMAGE, f"{folder} can be written by anybody"
        folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(copy, 65534, 65534)
        assert image() == IMAGE
        os.chown(copy, 0, 0)
    elsewhere = tmp_path / "elsewhere"
    copy.rename(elsewhere)
    copy.symlink_to(elsewhere)
    assert image() == IMAGE


def test_a_server_beside_gets_its_variables_and_the_image_in_use(apptainer: Path) -> None:
    out = run_in(container(server="beside"), ["env"], apptainer).stdout.splitlines()
    assert "A=b c" in out
    assert f"PORTAL_IMAGE={IMAGE}" in out
    (passed,) = (line for line in out if line.startswith("PORTAL_PASSED="))
    assert {"A", "PYTHONUSERBASE"} <= set(passed.removeprefix("PORTAL_PASSED=").split())
    assert not any(line.startswith(("APPTAINERENV_", "PORTAL_APPTAINER")) for line in out)
    inside = run_in(container(), ["env"], apptainer).stdout.splitlines()
    assert "APPTAINERENV_A=b c" in inside
    assert not any(line.startswith("PORTAL_IMAGE") for line in inside)


def environment_in_the_job(vendor: GpuVendor, **slurm: str) -> set[str]:
    """What Apptainer would find in a job on this vendor's GPUs, where Slurm has set ``slurm``."""
    done = subprocess.run(
        [str(session_script()), "env"],
        env={"PATH": os.environ["PATH"], **script_environment(container(), {}, vendor), **slurm},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0 and done.stderr == ""
    return set(done.stdout.splitlines())


# What Slurm sets where gres.conf(5) has no flags.
SLURM = {name: "2,3" for name in ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")}
SLURM["ROCR_VISIBLE_DEVICES"] = "2,3"


def test_the_job_script_passes_on_the_variables_of_nvidias_gpus() -> None:
    found = environment_in_the_job(VENDORS["nvidia"], **SLURM)
    assert {f"APPTAINERENV_{name}=2,3" for name in SLURM} <= found


def test_the_job_script_passes_on_the_variables_of_amds_gpus() -> None:
    """ROCm would apply both lists, one after the other, and find nothing."""
    found = environment_in_the_job(VENDORS["amd"], **SLURM, HIP_VISIBLE_DEVICES="0")
    passed = {line for line in found if line.startswith("APPTAINERENV_") and "_AT=" not in line}
    assert {line for line in passed if "DEVICE" in line} == {
        "APPTAINERENV_ROCR_VISIBLE_DEVICES=2,3",
        "APPTAINERENV_HIP_VISIBLE_DEVICES=0",
    }
    assert not any(line.startswith("PORTAL_GPU_VARIABLES") for line in found)


@pytest.mark.parametrize("kind", ["link", "file", "folder", "link to a folder", "nothing"])
def test_a_portal_folder_that_is_none_is_named(tmp_path: Path, kind: str) -> None:
    own = tmp_path / ".portal"
    (tmp_path / "real").mkdir()
    if kind.startswith("link"):
        own.symlink_to(tmp_path / ("real" if "to" in kind else "gone"))
    elif kind != "nothing":
        own.touch() if kind == "file" else own.mkdir()
    done = run_script({"HOME": str(tmp_path), "PORTAL_KIND": "venv"}, "sh", "-c", "echo began")
    if kind not in ("link", "file"):
        assert (done.stdout, done.returncode) == ("began\n", 0)
        return
    assert (done.stdout, done.returncode) == ("", 72)
    leads = f"{own} -> {tmp_path}/gone" if kind == "link" else str(own)
    assert f"is a broken link or no folder ({leads}). Remove or rename it" in cause_of(done.stderr)


def test_a_name_of_a_variable_is_not_evaluated(tmp_path: Path) -> None:
    made = tmp_path / "made"
    names = f"ROCR_VISIBLE_DEVICES x[$(touch${{IFS}}{made})] /* 1x"
    found = environment_in_the_job(VENDORS["amd"], PORTAL_GPU_VARIABLES=names, **SLURM)
    assert "APPTAINERENV_ROCR_VISIBLE_DEVICES=2,3" in found
    assert not made.exists()
