"""GPU vendors: the table, the setting, and that launches, job script and session agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from portal_session.measurements.gpus import VENDORS as SESSION_VENDORS
from traitlets import TraitError
from traitlets.config import Config

from portal.catalog.offers.tile import version_words
from portal.gpus import DEFAULT, VENDORS, GpuVendor
from portal.gpus.settings import Gpus
from portal.launch.container import (
    kernel_container,
    script_environment,
    session_command,
    session_variables,
)
from portal.models.catalog.environment import Environment, Server
from portal.models.catalog.image_job import ImageJob
from portal.models.session.resources import Resources

NODE = {"home": "/h", "apptainer": "/bin/apptainer"}
CONTAINER = Environment(name="c", title="C", kind="container", image="/i/c.sif")
AMD = VENDORS["amd"]


def test_shares_have_the_vendor_of_their_gpus() -> None:
    gpus = Gpus(vendor_of_type={"mi210": "amd"})
    assert gpus.vendor_for("shard.mi210") is gpus.vendor_for("mi210") is AMD
    for name in ("shard.t4", "shard", "a100_1g.10gb", "", None):
        assert gpus.vendor_for(name) is DEFAULT


def test_a_session_knows_each_vendor_with_the_same_variables() -> None:
    assert set(SESSION_VENDORS) == set(VENDORS)
    for name, vendor in VENDORS.items():
        assert vendor.name == name
        assert SESSION_VENDORS[name].variables == vendor.variables


def test_the_job_script_knows_the_variables_of_jobs_that_are_told_none() -> None:
    script = (Path(__file__).parents[3] / "deploy/session.sh").read_text()
    found = re.search(r"\$\{PORTAL_GPU_VARIABLES:-([A-Z_ ]+)\}", script)
    assert found is not None
    assert tuple(found[1].split()) == DEFAULT.variables


def test_nvidia_is_what_it_was() -> None:
    assert DEFAULT is VENDORS["nvidia"]
    assert DEFAULT.container_flag == "--nv"
    assert ImageJob.model_fields["gpu_vendor"].default == DEFAULT.name
    # A session and a job script with NVIDIA's GPUs are told nothing more than before.
    resources = Resources(gpus=1)
    assert "PORTAL_GPU_VENDOR" not in session_variables(CONTAINER, resources, **NODE)
    assert "PORTAL_GPU_VARIABLES" not in script_environment(CONTAINER, {})
    assert version_words({"driver": "535.104"}) == ("NVIDIA driver 535.104",)


def test_the_site_says_whose_gpus_a_type_is() -> None:
    assert Gpus().vendor_for("v100") is DEFAULT
    config = Config()
    config.Gpus.vendor_of_type = {"mi300x": "amd"}
    both = Gpus(config=config)
    assert both.vendor_for("mi300x") is AMD
    for other in ("v100", "", None):
        assert both.vendor_for(other) is DEFAULT
    all_amd = Gpus(vendor="amd", vendor_of_type={"t4": "nvidia"})
    assert [all_amd.vendor_for(name).name for name in ("mi210", None, "t4")] == [
        "amd",
        "amd",
        "nvidia",
    ]


@pytest.mark.parametrize("wrong", [{"vendor": "voodoo"}, {"vendor_of_type": {"x": "voodoo"}}])
def test_a_vendor_that_nobody_knows_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TraitError):
        Gpus(**wrong)


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
def test_a_container_gets_its_vendors_flag_and_only_with_gpus(vendor: GpuVendor) -> None:
    flags = {one.container_flag for one in VENDORS.values()}
    argv = session_command(CONTAINER, Resources(gpus=1), **NODE, vendor=vendor)
    assert flags & set(argv) == {vendor.container_flag}
    assert not flags & set(session_command(CONTAINER, Resources(), **NODE, vendor=vendor))
    beside = CONTAINER.model_copy(update={"server": Server.BESIDE})
    told = json.loads(kernel_container(beside, Resources(gpus=1), **NODE, vendor=vendor))
    assert flags & set(told["exec"]) == {vendor.container_flag}


def test_a_session_and_its_job_script_are_told_of_amd() -> None:
    told = session_variables(CONTAINER, Resources(gpus=1), **NODE, vendor=AMD)
    assert told["PORTAL_GPU_VENDOR"] == "amd"
    script = script_environment(CONTAINER, told, AMD)
    assert script["PORTAL_GPU_VARIABLES"] == "ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES"
    assert script["APPTAINERENV_PORTAL_GPU_VENDOR"] == "amd"
    beside = CONTAINER.model_copy(update={"server": Server.BESIDE})
    inside = session_variables(beside, Resources(gpus=1), **NODE, vendor=AMD)["PORTAL_CONTAINER"]
    assert "--rocm" in json.loads(inside)["exec"]


def test_tiles_name_amds_software() -> None:
    versions = {"torch": "2.9.1", "rocm": "6.4", "amdgpu": "6.16.6"}
    assert version_words(versions) == ("PyTorch 2.9.1", "ROCm 6.4", "AMD driver 6.16.6")
