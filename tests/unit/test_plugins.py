"""Parts from other packages: only what a setting names is loaded, and each fault is named."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from portal_session.measurements.gpus import gpu_reader
from traitlets import TraitError
from traitlets.config import Config

from portal import plugins
from portal.errors import ConfigurationError
from portal.gpus.settings import Gpus
from portal.models.cluster.cluster import ClusterSnapshot
from portal.telemetry import Telemetry
from portal.telemetry.prometheus import Prometheus

ENTRY_POINTS = """\
[data_scientist_portal.telemetry]
redfish = site_parts:Redfish
none = site_parts:Redfish
away = site_parts:Away
fault = site_fault:Source

[data_scientist_portal.exporters]
acme = site_parts:exporter

[data_scientist_portal.gpus]
acme = site_parts:vendor
other = site_parts:vendor

[portal_session.gpus]
acme = site_parts:SessionVendor
fault = site_fault:vendor
"""
PARTS = """\
from types import SimpleNamespace


class Redfish:
    title, simulated, pause = "Redfish", False, 0.0

    def __init__(self, settings):
        self.busy_percent = settings.busy_percent

    async def readings(self, snapshot, max_age):
        return {}


exporter = SimpleNamespace(
    name="acme", title="Acme's exporter", utilization="acme_busy", engine="", used="acme_used",
    free="acme_free", uuid_label="uuid", part_labels=(), node_label="host", index_label="number",
    part_of=lambda labels: "",
)
vendor = SimpleNamespace(
    name="acme", title="Acme", container_flag="--acme", variables=("ACME_DEVICES",),
    tool="acme-smi", driver="acme_driver", driver_title="Acme driver",
)


class SessionVendor:
    def reader(environ):
        return "Acme's reader"
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed distribution that is no part of the portal."""
    install(tmp_path, "site-parts", ENTRY_POINTS)
    (tmp_path / "site_parts.py").write_text(PARTS)
    (tmp_path / "site_fault.py").write_text("raise RuntimeError('no such device')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load.cache_clear()
    yield tmp_path
    plugins.load.cache_clear()
    for name in ("site_parts", "site_fault"):
        sys.modules.pop(name, None)


def install(folder: Path, name: str, entry_points: str) -> None:
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))


def configured(**sections: Any) -> Config:
    return Config(**sections)


async def test_a_source_of_a_package_gives_the_readings(site: Path) -> None:
    telemetry = Telemetry(config=configured(Telemetry={"source": "redfish", "busy_percent": 7.0}))
    source = telemetry._source
    assert (source.title, source.busy_percent) == ("Redfish", 7.0)
    await telemetry.refresh(ClusterSnapshot(taken_at=1.0))
    assert (telemetry.error, telemetry.taken_at is not None) == ("", True)


def test_an_exporter_of_a_package_is_queried(site: Path) -> None:
    section = {"prometheus_url": "http://p", "prometheus_exporters": ["dcgm", "acme"]}
    source = Prometheus(Telemetry(config=configured(Telemetry=section)))
    assert [exporter.name for exporter in source._exporters] == ["dcgm", "acme"]


def test_a_vendor_of_a_package_is_the_clusters(site: Path) -> None:
    gpus = Gpus(config=configured(Gpus={"vendor": "acme", "vendor_of_type": {"v100": "nvidia"}}))
    assert "site_parts" not in sys.modules, "its name is enough until it is needed"
    assert gpus.vendor_for("npu").container_flag == "--acme"
    assert gpus.vendor_for("v100").name == "nvidia"
    types = Gpus(config=configured(Gpus={"vendor_of_type": {"npu": "acme"}}))
    assert types.vendor_for("npu").tool == "acme-smi"
    assert types.vendor_for(None).name == "nvidia"


def test_a_session_reads_the_gpus_of_a_package_in_its_image(site: Path) -> None:
    reader: Any = gpu_reader({"PORTAL_GPU_VENDOR": "acme"})
    assert reader == "Acme's reader"


@pytest.mark.parametrize("name", ["fault", "nobody"])
def test_a_session_starts_without_the_package(
    name: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = gpu_reader({"PORTAL_GPU_VENDOR": name})
    assert type(reader) is type(gpu_reader({}))
    assert ("no such device" in capsys.readouterr().err) == (name == "fault")


def test_nothing_is_loaded_that_no_setting_names(site: Path) -> None:
    Telemetry(config=configured(Telemetry={"source": "none"}))
    Gpus()
    gpu_reader({})
    assert not {"site_parts", "site_fault"} & set(sys.modules)


def test_a_package_does_not_replace_a_part_of_the_portal(site: Path) -> None:
    telemetry = Telemetry(config=configured(Telemetry={"source": "none"}))
    assert type(telemetry._source).__module__ == "portal.telemetry.none"


def test_a_name_of_no_package_is_refused_where_it_is_set(site: Path) -> None:
    with pytest.raises(TraitError, match="No installed package has the") as refusal:
        Telemetry(config=configured(Telemetry={"source": "redfisch"}))
    assert "data_scientist_portal.telemetry 'redfisch'" in str(refusal.value)
    assert "'prometheus'" in str(refusal.value), "the portal's own are named"


@pytest.mark.parametrize(
    ("group", "name", "sentence"),
    [
        ("telemetry", "nobody", "Install its package for the Python of the Hub"),
        ("telemetry", "fault", "from site_fault:Source: RuntimeError: no such device"),
        ("telemetry", "away", "has no attribute 'Away'"),
        ("gpus", "other", "'other' is called 'acme' in site_parts:vendor"),
    ],
)
def test_each_fault_is_named(group: str, name: str, sentence: str, site: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        plugins.load(group, name)
    assert sentence in error.value.message
    assert f"data_scientist_portal.{group} '{name}'" in error.value.message


def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "more-parts", "[data_scientist_portal.telemetry]\nredfish = site_fault:Redfish\n")
    with pytest.raises(ConfigurationError, match="More than one package") as error:
        plugins.load("telemetry", "redfish")
    assert "site_fault:Redfish, site_parts:Redfish" in error.value.message
