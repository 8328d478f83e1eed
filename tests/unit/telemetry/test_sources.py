"""Telemetry sources and exporters: what each owes, and AMD's exporter on an example of its page."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError

from portal.errors import ConfigurationError, Unavailable
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Node
from portal.models.cluster.gpu import GpuReading
from portal.telemetry import Telemetry
from portal.telemetry import sources as sources_module
from portal.telemetry.exporters import EXPORTERS
from portal.telemetry.prometheus_answer import query, readings
from portal.telemetry.sources import SOURCES

AMD = EXPORTERS["amd"]
PAGE = (Path(__file__).parents[2] / "amd_outputs/device-metrics-exporter.txt").read_text()
LABELS = {"node_label": "hostname", "index_label": "gpu_id"}


def snapshot(count: int = 2) -> ClusterSnapshot:
    pool = GpuPool(type="mi300x", count=count)
    node = Node(name="gpu06", address="10.0.0.6", state="MIXED", gpus=(pool,))
    return ClusterSnapshot(taken_at=time.time(), nodes={"gpu06": node})


# -- sources ----------------------------------------------------------------------------------


def test_the_settings_are_what_they_were() -> None:
    assert Telemetry.source.values == list(SOURCES) == ["none", "prometheus", "simulated"]
    assert Telemetry().source == "none"
    with pytest.raises(TraitError):
        Telemetry(source="voodoo")


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_says_who_it_is(name: str) -> None:
    source = SOURCES[name](Telemetry(prometheus_url="http://prometheus.example.org"))
    assert source.title and source.pause >= 0
    assert source.simulated == (name == "simulated")


class OwnSource:
    """A source as somebody else would write it."""

    title = "Our own"
    simulated = False
    pause = 0.0

    def __init__(self, settings: Telemetry) -> None:
        self.answers: list[Any] = [
            {("gpu06", 0): GpuReading(node="gpu06", index=0, at=time.time(), source="own")},
            Unavailable("Our own source is away."),
            ValueError("a fault"),
            None,
        ]

    async def readings(self, snapshot: ClusterSnapshot, max_age: int) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_source_of_ones_own_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources_module.SOURCES, "none", OwnSource)
    telemetry, cluster = Telemetry(), snapshot()
    await telemetry.refresh(cluster)
    assert telemetry.readings(cluster)["gpu06", 0].source == "own"
    taken = telemetry.taken_at
    assert taken is not None and telemetry.error == ""
    await telemetry.refresh(cluster)
    assert telemetry.error == "Our own source is away."
    await telemetry.refresh(cluster)
    assert "could not be read" in telemetry.error
    assert set(telemetry.readings(cluster)) == {("gpu06", 0)}, "the last readings stay"
    await telemetry.refresh(cluster)
    assert telemetry.error == "" and telemetry.taken_at == taken


async def test_without_a_source_nobody_has_answered() -> None:
    telemetry = Telemetry()
    await telemetry.refresh(snapshot())
    assert (telemetry.taken_at, telemetry.age, telemetry.error) == (None, None, "")


# -- exporters --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [["voodoo"], "voodoo", ["dcgm", 3]])
def test_an_exporter_that_nobody_knows_is_refused(wrong: Any) -> None:
    with pytest.raises(TraitError):
        Telemetry(prometheus_exporters=wrong)


def test_prometheus_without_an_exporter_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"c\.Telemetry\.prometheus_exporters"):
        Telemetry(source="prometheus", prometheus_url="http://p", prometheus_exporters=[])


def test_the_question_about_dcgm_is_what_it_was() -> None:
    by = "GPU_I_ID, Hostname, gpu, instance"
    parts = {
        "time of DCGM_FI_DEV_GPU_UTIL": f"max by ({by}, UUID) (timestamp(DCGM_FI_DEV_GPU_UTIL))",
        "time of DCGM_FI_DEV_FB_USED": f"max by ({by}, UUID) (timestamp(DCGM_FI_DEV_FB_USED))",
        "DCGM_FI_DEV_GPU_UTIL": f"max by ({by}) (DCGM_FI_DEV_GPU_UTIL)",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": f"max by ({by}) (DCGM_FI_PROF_GR_ENGINE_ACTIVE)",
        "DCGM_FI_DEV_FB_USED": f"max by ({by}) (DCGM_FI_DEV_FB_USED)",
        "DCGM_FI_DEV_FB_FREE": f"max by ({by}) (DCGM_FI_DEV_FB_FREE)",
        "DCGM_FI_DEV_POWER_USAGE": f"max by ({by}) (DCGM_FI_DEV_POWER_USAGE)",
    }
    expected = " or ".join(
        f'label_replace({part}, "portal_part", "{name}", "instance", ".*")'
        for name, part in parts.items()
    )
    assert query(EXPORTERS["dcgm"], ("Hostname", "gpu")) == expected


def answered(page: str, at: float = 1000.0, age: float = 2.0) -> bytes:
    """Prometheus's answer to the question about AMD's exporter, where it has scraped ``page``."""
    rows = []
    for line in page.splitlines():
        found = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
        if found is None:
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found[2]))
        kept = ("hostname", "gpu_id", "gpu_compute_partition_type", "gpu_partition_id")
        metric = {name: labels[name] for name in kept if name in labels}
        if found[1] in (AMD.utilization, AMD.used, AMD.free, AMD.power):
            rows.append(({**metric, "portal_part": found[1]}, found[3]))
        if found[1] in (AMD.utilization, AMD.used):
            timed = {**metric, "gpu_uuid": labels.get("gpu_uuid", "")}
            rows.append(({**timed, "portal_part": f"time of {found[1]}"}, str(at - age)))
    result = [{"metric": metric, "value": [at, value]} for metric, value in rows]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return json.dumps(answer).encode()


def read(page: str, count: int = 2, **more: float) -> dict[int, GpuReading]:
    found = readings(AMD, answered(page, **more), snapshot(count), 5000.0, 10.0, **LABELS)
    return {index: reading for (_, index), reading in found.items()}


def test_a_page_of_amds_exporter() -> None:
    found = read(PAGE)
    assert found[0] == GpuReading(
        node="gpu06",
        index=0,
        at=4998.0,
        source="amd",
        uuid="a1ff74a1-0000-1000-80a1-0000000000a1",
        utilization=91.0,
        memory_used=150000,
        memory_total=196592,
    )
    assert (found[1].utilization, found[1].memory_used) == (0.0, 283)
    assert read(PAGE, age=11.0) == {}, "too old"


def test_parts_of_a_gpu_have_no_utilisation_and_count_only_as_slurm_counts() -> None:
    cut = PAGE.replace('type="spx"', 'type="cpx"')
    assert {i: (one.mig, one.utilization, one.memory_used) for i, one in read(cut).items()} == {
        0: (True, None, 150000),
        1: (True, None, 283),
    }
    assert read(cut, count=8) == {}


@pytest.mark.parametrize("value", ["-1", "101", "65535", "NaN", "1e300"])
def test_a_number_that_cannot_be_is_unknown(value: str) -> None:
    page = re.sub(r"(gpu_gfx_activity\{.*\}) 91", rf"\1 {value}", PAGE)
    page = re.sub(r"(gpu_used_vram\{.*\}) 150000", r"\1 -5", page)
    found = read(page).get(0)
    assert found is not None
    assert (found.utilization, found.memory_used, found.memory_total) == (None, None, None)


@pytest.mark.parametrize(("value", "watts"), [("412.34", 412.3), ("-1", None), ("1e9", None)])
def test_power_is_in_watts_if_it_can_be(value: str, watts: float | None) -> None:
    labels = re.search(r"gpu_gfx_activity(\{.*\}) 91", PAGE)
    assert labels
    assert read(f"{PAGE}\ngpu_package_power{labels[1]} {value}\n")[0].power == watts
    assert read(PAGE)[0].power is None


def test_labels_of_a_stranger_are_nobodys() -> None:
    assert read(PAGE.replace('hostname="gpu06"', 'hostname="other"')) == {}
    assert read(PAGE.replace('gpu_id="', 'gpu_id="x')) == {}
    hostile = PAGE.replace('gpu_uuid="a1', 'gpu_uuid="<b>')
    assert read(hostile)[0].uuid == ""
