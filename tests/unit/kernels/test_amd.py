"""AMD's GPUs in a session: examples of what amd-smi and rocm-smi print, good, odd, broken and
hostile (tests/amd_outputs/README.md says where their shapes are from)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from portal_session.measurements.gpus import amd, gpu_reader, inventory, vendor_of
from portal_session.measurements.gpus.amd import AmdReader, of_this_job
from portal_session.measurements.gpus.amd_output import FoundGpu, amd_smi, amd_smi_static, rocm_smi

from portal.models.session.telemetry import TelemetryReport

OUTPUTS = Path(__file__).parents[2] / "amd_outputs"
JOB = "1234"
NODE = {"SLURM_JOB_GPUS": "1,2", "SLURM_GPUS_ON_NODE": "2", "ROCR_VISIBLE_DEVICES": "0,1"}


def text(name: str) -> str:
    return (OUTPUTS / name).read_text()


class Programs:
    """Stands for the node's programs: prints what a test says, and counts."""

    def __init__(self, **outputs: str) -> None:
        self.outputs = outputs
        self.calls: list[str] = []

    def __call__(self, argv: list[str]) -> str:
        name = argv[0] if argv[0] == "rocm-smi" else f"{argv[0]} {argv[1]}"
        self.calls.append(name)
        return self.outputs.get(name.replace("-", "_").replace(" ", "_"), "")


def read(programs: Programs, environ: dict[str, str] = NODE) -> list[dict[str, Any]]:
    gpus = AmdReader(environ, programs).read()
    # Whatever the programs say, the service's model takes it, and its checks too.
    TelemetryReport.model_validate_json(json.dumps({"job_id": JOB, "gpus": gpus}))
    for name in ("index", "uuid"):
        said = [gpu[name] for gpu in gpus if gpu[name] != ""]
        assert len(set(said)) == len(said)
    for gpu in gpus:
        assert (gpu["memory_used"] or 0) <= (gpu["memory_total"] or 2**40)
    return gpus


def shown(uuid: str, utilization: int, memory_used: int, memory_total: int) -> dict[str, Any]:
    """The first GPU of a session, whole."""
    values = {"uuid": uuid, "utilization": utilization, "memory_used": memory_used}
    return {"index": 0, "minor": None, "memory_total": memory_total, "mig": False, **values}


# -- which vendor -----------------------------------------------------------------------------


def test_a_session_has_the_vendor_that_it_is_told_and_else_nvidia() -> None:
    assert vendor_of({}).name == "nvidia"
    assert vendor_of({"PORTAL_GPU_VENDOR": "amd"}).name == "amd"
    assert vendor_of({"PORTAL_GPU_VENDOR": "of-a-newer-portal"}).name == "nvidia"
    assert isinstance(gpu_reader({"PORTAL_GPU_VENDOR": "amd"}), AmdReader)
    assert not isinstance(gpu_reader({}), AmdReader)


# -- amd-smi ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["amd-smi-metric.json", "amd-smi-metric-list.json"])
def test_amd_smi_before_and_after_version_26(shape: str) -> None:
    programs = Programs(amd_smi_metric=text(shape), amd_smi_list=text("amd-smi-list.json"))
    first, second = read(programs)
    assert first == shown("b2ff74a1-0000-1000-80b2-0000000000b2", 97, 181200, 196592)
    assert (second["index"], second["utilization"], second["memory_used"]) == (1, 42, 90001)
    assert programs.calls == ["amd-smi metric", "amd-smi list"]


def test_without_the_list_the_uuids_are_unknown() -> None:
    (gpu, _) = read(Programs(amd_smi_metric=text("amd-smi-metric.json")))
    assert (gpu["uuid"], gpu["utilization"]) == ("", 97)


def test_a_part_of_a_gpu_has_no_utilisation_of_its_own() -> None:
    listing = text("amd-smi-list-partitioned.json")
    found = amd_smi(text("amd-smi-metric.json"), listing)
    assert [gpu.partition for gpu in found] == [True, True, False, False]
    programs = Programs(amd_smi_metric=text("amd-smi-metric.json"), amd_smi_list=listing)
    gpus = read(programs, {"SLURM_JOB_GPUS": "0,1", "SLURM_GPUS_ON_NODE": "2"})
    assert [(gpu["mig"], gpu["utilization"], gpu["uuid"]) for gpu in gpus] == [
        (True, None, ""),
        (True, None, ""),
    ]
    assert gpus[1]["memory_used"] == 181200


def a_gpu(**sections: Any) -> str:
    return json.dumps({"gpu_data": [{"gpu": 0, **sections}]})


@pytest.mark.parametrize(
    ("value", "utilization"),
    [
        ({"value": 12.6, "unit": "%"}, 13),
        (7, 7),
        ("55", 55),
        ("55 %", 55),
        ("N/A", None),
        ({"value": "N/A", "unit": "%"}, None),
        (None, None),
        (True, None),
        ([], None),
        ({"value": {"value": 1}}, None),
        ({"value": -1, "unit": "%"}, None),
        ({"value": 101, "unit": "%"}, None),
        ({"value": 65535, "unit": "%"}, None),  # the driver's "no value"
        ({"value": 10**400, "unit": "%"}, None),
        ({"value": float("nan"), "unit": "%"}, None),
        ({"value": float("inf"), "unit": "%"}, None),
        ("9" * 5000, None),
    ],
)
def test_a_utilisation_that_cannot_be_is_unknown(value: Any, utilization: int | None) -> None:
    (gpu,) = amd_smi(a_gpu(usage={"gfx_activity": value}), "")
    assert gpu.utilization == utilization


@pytest.mark.parametrize(
    ("used", "total", "memory"),
    [
        ({"value": 10, "unit": "MB"}, {"value": 20, "unit": "MB"}, (10, 20)),
        ({"value": 1, "unit": "GB"}, {"value": 2, "unit": "GiB"}, (1024, 2048)),
        ({"value": 2097152, "unit": "B"}, "20 MB", (2, 20)),
        ({"value": 30, "unit": "MB"}, {"value": 20, "unit": "MB"}, (None, 20)),
        ({"value": -1, "unit": "MB"}, {"value": 20, "unit": "MB"}, (None, 20)),
        ({"value": 10, "unit": "MB"}, {"value": 2**63, "unit": "MB"}, (10, None)),
        ({"value": 10, "unit": "furlongs"}, {"value": 20}, (None, None)),
        ("N/A", "N/A", (None, None)),
    ],
)
def test_memory_that_cannot_be_is_unknown(used: Any, total: Any, memory: tuple[Any, Any]) -> None:
    (gpu,) = amd_smi(a_gpu(mem_usage={"used_vram": used, "total_vram": total}), "")
    assert (gpu.memory_used, gpu.memory_total) == memory


def test_sections_that_are_not_supported_are_a_word() -> None:
    assert amd_smi(a_gpu(usage="N/A", mem_usage="N/A"), "") == [FoundGpu()]
    assert amd_smi(a_gpu(), "") == [FoundGpu()]


# -- rocm-smi ---------------------------------------------------------------------------------


def test_rocm_smi_answers_where_amd_smi_does_not() -> None:
    programs = Programs(rocm_smi=text("rocm-smi.json"))
    first, second = read(programs)
    assert first == shown("GPU-a1000000000000a1", 0, 10, 65520)
    assert (second["utilization"], second["memory_used"]) == (88, 40960)
    assert programs.calls == ["amd-smi metric", "rocm-smi"]


def test_an_older_rocm_smi_with_a_warning_before_its_answer() -> None:
    found, driver = rocm_smi(text("rocm-smi-5.json"))
    assert [(gpu.utilization, gpu.memory_used, gpu.memory_total) for gpu in found] == [
        (20, 1024, 65520),
        (None, None, 65520),
    ]
    assert [gpu.uuid for gpu in found] == ["GPU-e500000000000000", ""]
    assert found[0].name == "AMD INSTINCT MI250 (MCM) OAM AC MBA"
    assert driver == "5.18.13"


def test_cards_are_in_the_order_of_their_numbers() -> None:
    cards = {f"card{n}": {"GPU use (%)": str(n)} for n in (10, 2, 0)}
    found, _ = rocm_smi(json.dumps({**cards, "card": {}, "cardX": {}, "card7": "N/A"}))
    assert [gpu.utilization for gpu in found] == [0, 2, 10]


# -- broken and hostile -----------------------------------------------------------------------

BROKEN = [
    "",
    "not JSON",
    "{",
    "[" * 100_000,
    '{"a": ' * 100_000,
    "null",
    "[]",
    "{}",
    '{"gpu_data": {}}',
    '{"gpu_data": [1, "x", null, [], {}]}',
    '{"gpu_data": [{"gpu": "0"}, {"gpu": -1}, {"gpu": 1.5}, {"gpu": 99999999}]}',
    '{"card0": [], "card1": "x", "system": 3}',
    '{"gpu_data": [{"gpu": 0, "usage": {"gfx_activity": ' + "9" * 10_000 + "}}]}",
    "WARNING: No JSON data to report\n",
    "\x00\ud800[\n[\n[\n",
]


@pytest.mark.parametrize("said", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_answer_is_no_gpu(said: str) -> None:
    assert amd_smi(said, said) == []
    assert rocm_smi(said) == ([], "")
    assert amd_smi_static(said) == ([], "")
    programs = Programs(amd_smi_metric=said, amd_smi_list=said, amd_smi_static=said, rocm_smi=said)
    assert read(programs) == []
    assert inventory({**NODE, "PORTAL_GPU_VENDOR": "amd"}, programs)["names"] == []


def test_an_answer_that_breaks_off_is_none() -> None:
    whole = text("amd-smi-metric.json")
    assert amd_smi(whole[: len(whole) // 2], "") == []
    whole = text("amd-smi-metric-list.json")
    assert amd_smi(whole[: len(whole) // 2], "") == []
    whole = text("rocm-smi.json")
    assert rocm_smi(whole[: len(whole) // 2]) == ([], "")


def test_the_same_gpu_twice_is_one_and_thousands_are_a_report_of_64() -> None:
    twice = json.dumps([{"gpu": 0, "usage": {"gfx_activity": n}} for n in (1, 2)])
    assert [gpu.utilization for gpu in amd_smi(twice, "")] == [1]
    many = json.dumps([{"gpu": n} for n in range(4096)])
    assert len(read(Programs(amd_smi_metric=many), {"SLURM_GPUS_ON_NODE": "4096"})) == 64


def test_words_that_are_no_names_stay_out() -> None:
    odd = [{"gpu": 0, "uuid": "<b>"}, {"gpu": 1, "uuid": "a\nb"}, {"gpu": 2, "uuid": 7}]
    found = amd_smi(json.dumps([{"gpu": n} for n in range(3)]), json.dumps(odd))
    assert [gpu.uuid for gpu in found] == ["", "", ""]
    named = json.dumps({"card0": {"Card Series": "x\x1b[31m", "Unique ID": "0x" + "f" * 99}})
    assert rocm_smi(named)[0] == [FoundGpu()]
    driver = json.dumps({"card0": {}, "system": {"Driver version": "$(reboot)"}})
    assert rocm_smi(driver)[1] == ""


# -- whose GPUs -------------------------------------------------------------------------------

FOUR = [FoundGpu(uuid=f"GPU-{n}", utilization=n) for n in range(4)]


@pytest.mark.parametrize(
    ("environ", "mine"),
    [
        # Slurm's numbers are the node's; ROCR_VISIBLE_DEVICES may count from 0 in each job.
        ({"SLURM_JOB_GPUS": "2,3", "ROCR_VISIBLE_DEVICES": "0,1"}, [2, 3]),
        ({"SLURM_JOB_GPUS": "3,1,1"}, [1, 3]),
        ({"SLURM_JOB_GPUS": "2,4"}, []),
        ({"SLURM_JOB_GPUS": "2", "ROCR_VISIBLE_DEVICES": "GPU-3"}, [3]),
        ({"SLURM_JOB_GPUS": "2", "ROCR_VISIBLE_DEVICES": "GPU-unknown"}, [2]),
        ({"SLURM_GPUS_ON_NODE": "4"}, [0, 1, 2, 3]),
        ({"SLURM_GPUS_ON_NODE": "2", "ROCR_VISIBLE_DEVICES": "0,1"}, []),
        ({"SLURM_JOB_GPUS": "a100:2"}, []),
        ({"SLURM_JOB_GPUS": "1" * 5000}, []),
        ({"ROCR_VISIBLE_DEVICES": "0"}, []),
        ({"SLURM_GPUS_ON_NODE": "0"}, []),
        ({}, []),
    ],
)
def test_only_what_is_surely_the_jobs(environ: dict[str, str], mine: list[int]) -> None:
    assert [gpu.utilization for gpu in of_this_job(FOUR, environ)] == mine


def test_a_job_without_gpus_starts_no_program() -> None:
    programs = Programs(rocm_smi=text("rocm-smi.json"))
    assert read(programs, {"SLURM_JOB_ID": JOB}) == []
    assert programs.calls == []


# -- how often --------------------------------------------------------------------------------


def test_one_answer_serves_for_some_seconds_and_the_list_for_the_session() -> None:
    programs = Programs(
        amd_smi_metric=text("amd-smi-metric.json"), amd_smi_list=text("amd-smi-list.json")
    )
    now = 100.0
    reader = AmdReader(NODE, programs, lambda: now)
    assert len(reader.read()) == len(reader.read()) == 2
    assert len(programs.calls) == 2
    now += amd.FRESH
    reader.read()
    assert programs.calls == ["amd-smi metric", "amd-smi list", "amd-smi metric"]
    reader.close()
    reader.read()
    assert len(programs.calls) == 4


def test_a_node_without_the_programs_is_not_asked_more_often() -> None:
    programs, now = Programs(), 0.0
    reader = AmdReader(NODE, programs, lambda: now)
    assert reader.read() == reader.read() == []
    assert programs.calls == ["amd-smi metric", "rocm-smi"]


# -- the smoke test ---------------------------------------------------------------------------

AMD = {"PORTAL_GPU_VENDOR": "amd", "SLURM_JOB_GPUS": "1", "SLURM_GPUS_ON_NODE": "1"}


def test_the_smoke_test_counts_the_jobs_gpus_and_reads_the_driver() -> None:
    said = inventory(AMD, Programs(amd_smi_static=text("amd-smi-static.json")))
    assert said == {
        "driver": "6.16.6",
        "cuda": "",
        "names": ["AMD Instinct MI300X"],
        "reason": "",
    }
    said = inventory(AMD, Programs(rocm_smi=text("rocm-smi.json")))
    assert (said["driver"], said["names"]) == ("6.8.5", ["AMD Instinct MI210"])
    none = inventory(AMD, Programs())
    assert none["names"] == [] and none["reason"] == "amd-smi and rocm-smi show no GPU of this job."
