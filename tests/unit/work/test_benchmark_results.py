"""Results of benchmarks: as scripts log them, with what Slurm says, and against data sheets."""

from __future__ import annotations

import random
import runpy
import statistics
from pathlib import Path
from typing import Any

import pytest

from portal.errors import InvalidRequest
from portal.models.cluster.cluster import Job
from portal.models.session.run_logged import Logged
from portal.work.benchmarks import results
from portal.work.benchmarks.results import BenchmarkResult, ReportedResult, falls, placed
from portal.work.benchmarks.specifications import cards_of, share_of_peak, specifications

STARTERS = Path(__file__).resolve().parents[3] / "deploy/environments/starters"
TABLE = "benchmark throughput 0123456789abcdef"
ROW = ["training", 812.5, "images/s", 2, "precision=fp16, ranks=2", "fp16", 2.454e10, 0.01]
ABOUT: dict[str, Any] = {
    "user": "ada",
    "run": "r1",
    "benchmark": "throughput",
    "environment": "pytorch",
    "version": 3,
    "at": 5.0,
}


def logged(*rows: list[Any], name: str = TABLE, columns: Any = results.COLUMNS) -> Logged:
    return Logged(tables={name: (tuple(columns), *map(tuple, rows))})


def reported(**more: Any) -> ReportedResult:
    return ReportedResult.model_validate({**dict(zip(results.COLUMNS, ROW, strict=True)), **more})


def a_result(**more: Any) -> BenchmarkResult:
    job = Job(id="12_0", gpus=2, gpu_type="v100", nodes=("gpu01",))
    return placed(reported(), job, simulated=False, about=ABOUT).model_copy(update=more)


def test_a_table_of_a_script_is_read() -> None:
    other = logged(["x"], name="confusion", columns=["a"])
    assert list(results.logged_results(other)) == []
    (found,) = results.logged_results(logged(ROW, [*ROW[:3], None, "", "", 0, 0]))
    assert (found.benchmark, found.digest) == ("throughput", "0123456789abcdef")
    assert found.results == [
        reported(), reported(gpus=None, conditions="", peak="", operations=0, spread=0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, ""), (1, 0), (1, -1.0), (1, "812"), (1, True), (1, None), (2, "images a second"),
        (3, -1), (3, "2"), (3, 1.5), (4, None), (5, "fp12"), (6, -1), (6, None),
        (7, -0.1), (7, None), (1, 1e31), (1, 1e-31), (6, 1e31), (6, True),
    ],
)  # fmt: skip
def test_a_row_that_is_no_result_is_refused(at: int, value: Any) -> None:
    row = [*ROW[:at], value, *ROW[at + 1 :]]
    with pytest.raises(InvalidRequest, match="is no result of a benchmark"):
        list(results.logged_results(logged(row)))


def test_a_table_in_another_form_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="The columns of"):
        list(results.logged_results(logged(columns=["name", "value"])))
    with pytest.raises(InvalidRequest, match="no result"):
        list(results.logged_results(logged(ROW[:-1])))


def test_hardware_is_what_slurm_says() -> None:
    job = Job(id="12_0", gpus=2, gpu_type="v100", nodes=("gpu01", "gpu02"))

    def of(gpus: int | None, *, simulated: bool = False, job: Job = job) -> BenchmarkResult:
        return placed(reported(gpus=gpus), job, simulated=simulated, about=ABOUT)

    assert (of(2).gpu_type, of(2).gpus, of(2).nodes) == ("v100", 2, "gpu01,gpu02")
    assert (of(0).gpu_type, of(0).gpus, of(0).simulated) == ("", 0, False)  # its CPUs
    with pytest.raises(InvalidRequest, match="3 GPUs; its job had 2"):
        of(3)
    played = of(0, simulated=True)
    assert (played.gpu_type, played.gpus, played.simulated) == ("v100", 2, True)
    disk = of(None, simulated=True)  # no GPU had to do with it
    assert (disk.gpu_type, disk.gpus, disk.simulated) == ("", 0, False)
    untyped = job.model_copy(update={"gpu_type": ""})
    assert of(2, job=untyped).gpu_type == "gpu"


def test_a_fall_of_ten_percent_is_named() -> None:
    fallen = a_result(value=90.0, before=100.0)
    slower = a_result(value=115.0, before=100.0, unit="µs")
    quiet = [
        a_result(value=90.1, before=100.0),
        a_result(value=200.0, before=100.0),
        a_result(value=50.0, unit="µs", before=100.0),
        a_result(value=1.0),
    ]
    assert falls([fallen, slower, *quiet]) == [
        "training (precision=fp16, ranks=2): 115 µs, before 100, which is 15% worse.",
        "training (precision=fp16, ranks=2): 90 images/s, before 100, which is 10% worse.",
    ]
    assert [result.fall for result in quiet] == [0.0] * 4


def earlier(*values: float, spread: float = 0.0) -> list[BenchmarkResult]:
    return [a_result(value=value, spread=spread) for value in values]


def test_a_first_result_is_beside_none() -> None:
    assert (a_result().compared([]).before, a_result().compared([]).fall) == (None, 0.0)


def test_one_outlier_before_hides_no_fall_and_makes_none() -> None:
    steady = [100.0, 101.0, 99.0, 100.0]
    lucky, slow = earlier(130.0, *steady), earlier(*steady[:2], 70.0, *steady[2:])
    assert a_result(value=100.0).compared(lucky).fall == 0.0
    assert a_result(value=50.0).compared(slow).fall == pytest.approx(0.5)
    assert a_result(value=50.0).compared(slow).before == 100.0


def test_a_fall_is_more_than_the_earlier_runs_differ() -> None:
    noisy, steady = earlier(100.0, 130.0, 90.0), earlier(100.0, 101.0, 99.0)
    assert a_result(value=75.0).compared(noisy).fall == 0.0
    assert a_result(value=55.0).compared(noisy).fall == pytest.approx(0.45)
    assert a_result(value=88.0).compared(steady).fall == pytest.approx(0.12)


def test_a_fall_is_more_than_the_repeats_of_both_runs_leave_open() -> None:
    def fall(value: float, old: float, new: float) -> float:
        return a_result(value=value, spread=new).compared(earlier(100.0, spread=old)).fall

    assert fall(80.0, 0.0, 0.0) == fall(80.0, 0.01, 0.01) == pytest.approx(0.2)
    assert fall(80.0, 0.1, 0.0) == fall(80.0, 0.0, 0.1) == 0.0
    assert fall(60.0, 0.1, 0.0) == pytest.approx(0.4)


def test_noise_is_rarely_a_fall_and_a_fall_is_seen() -> None:
    """4K blocks, each the median of five, from run to run: a rule of 10 % alone says every third
    that it fell."""
    error_of_median = runpy.run_path(str(STARTERS / results.MODULE))["error_of_median"]
    draw = random.Random(33)

    def run(noise: float, part: float = 1.0) -> BenchmarkResult:
        node = part * draw.lognormvariate(0, noise / 2)
        repeats = [100 * node * draw.lognormvariate(0, noise) for _ in range(5)]
        spread = error_of_median(repeats)
        return a_result(value=statistics.median(repeats), spread=spread, unit="IO/s")

    def falls_of(noise: float, runs: int, part: float) -> float:
        found = [run(noise, part).compared([run(noise) for _ in range(runs)]) for _ in range(500)]
        return sum(result.fall > 0 for result in found) / len(found)

    for runs in (2, 5):
        assert falls_of(0.15, runs, 1.0) <= 0.08
        assert falls_of(0.15, runs, 0.4) >= 0.9
        assert falls_of(0.01, runs, 1.0) == 0.0
        assert falls_of(0.01, runs, 0.85) == 1.0
    pairs = [(run(0.15).value, run(0.15).value) for _ in range(500)]
    assert sum(new <= 0.9 * old for new, old in pairs) / len(pairs) > 0.15


def test_the_data_sheets_are_complete() -> None:
    known = specifications()
    assert len({entry.title for entry in known}) == len(known)
    models = {name.split()[0] for entry in known for name in entry.names}
    assert {"t4", "v100", "a100", "h100", "h200", "l4", "mi250"} <= models
    for entry in known:
        assert entry.source and entry.memory and entry.bandwidth and entry.watts


def test_the_numbers_of_a_sheet_fit_each_other() -> None:
    """Matrix units do twice the operations with half the bits, so a typing error shows. The whole
    file has numbers without sparsity."""
    rates = {"tf32": (0.5,), "bf16": (1.0, 0.5), "int8": (2.0, 1.0)}
    halves = 0
    for entry in specifications():
        if entry.fp16 is None:  # an entry whose peaks were not confirmed has none
            assert not any((entry.fp64, entry.fp32, entry.tf32, entry.bf16, entry.int8))
            continue
        assert entry.fp32 and 1.99 <= entry.fp16 / entry.fp32 <= 20, entry.title
        assert entry.fp64 is None or entry.fp64 <= entry.fp32
        for name, ratios in rates.items():
            value = getattr(entry, name)
            if value is not None:
                halves += 1
                assert any(
                    value / entry.fp16 == pytest.approx(ratio, rel=0.02) for ratio in ratios
                ), (entry.title, name)
    assert halves > 40


def titles(gpu_type: str) -> list[str]:
    return [entry.title for entry in cards_of(gpu_type, specifications())]


@pytest.mark.parametrize(
    ("gpu_type", "title"),
    [
        ("tesla_v100-pcie-32gb", "NVIDIA V100 PCIe 32 GB"),
        ("tesla_v100-sxm2-16gb", "NVIDIA V100 SXM2 16 GB"),
        ("tesla_v100s-pcie-32gb", "NVIDIA V100S PCIe"),
        ("A100-SXM-40GB", "NVIDIA A100 SXM4 40 GB"),
        ("nvidia_a100_80gb_pcie", "NVIDIA A100 PCIe 80 GB"),
        ("nvidia_a100-sxm4-80gb", "NVIDIA A100 SXM4 80 GB"),
        ("nvidia_h100_80gb_hbm3", "NVIDIA H100 SXM5"),
        ("nvidia_h100_pcie", "NVIDIA H100 PCIe"),
        ("nvidia_h200", "NVIDIA H200 SXM5"),
        ("nvidia_h200_nvl", "NVIDIA H200 NVL"),
        ("mi250x", "AMD MI250X"),
        ("l40s", "NVIDIA L40S"),
        ("l40", "NVIDIA L40"),
        ("t4", "NVIDIA T4"),
    ],
)
def test_a_type_of_slurm_is_found(gpu_type: str, title: str) -> None:
    assert titles(gpu_type) == [title]


@pytest.mark.parametrize(
    "gpu_type", ["a1000", "a100_1g.5gb", "a100_pcie_sxm4", "nvidia", "gpu", ""]
)
def test_a_type_that_no_card_has_is_not_guessed(gpu_type: str) -> None:
    assert titles(gpu_type) == []


def test_a_type_that_several_cards_have_is_none_of_them() -> None:
    def share(gpu_type: str, peak: Any) -> float | None:
        return share_of_peak(100, 1, peak, 1e12, cards_of(gpu_type, specifications()))

    # Compared with the one, a result of the other is wrong by a quarter.
    for gpu_type in ("h100", "v100", "p100", "h200", "mi250", "h100_80gb", "tesla_v100-fhhl-16gb"):
        assert len(titles(gpu_type)) > 1
        assert share(gpu_type, "fp16") is None, gpu_type
    assert titles("h100_80gb") == ["NVIDIA H100 PCIe", "NVIDIA H100 SXM5"]
    # All cards of A100 compute alike; their memories differ.
    assert len(titles("a100")) == 4
    assert share("a100", "fp16") == pytest.approx(100 / 312)
    assert share("a100", "bandwidth") is None
    assert share("a100_40gb", "bandwidth") is not None  # PCIe or SXM4


def test_a_share_of_the_peak() -> None:
    v100 = cards_of("v100-sxm2", specifications())
    # 2,000 images a second of 24.54 GFLOP on two GPUs of 125 TFLOPS.
    share = share_of_peak(2000, 2, "fp16", 2.454e10, v100)
    assert share == pytest.approx(0.19632)
    assert share_of_peak(450, 1, "bandwidth", 1e9, v100) == pytest.approx(0.5)
    assert share_of_peak(2000, 2, "int8", 1e12, v100) is None  # not in its data sheet
    assert share_of_peak(2000, 0, "fp16", 2.454e10, v100) is None
    assert share_of_peak(2000, 2, "", 0, v100) is None
    assert share_of_peak(2000, 2, "fp16", 2.454e10, []) is None
    # Half of a card that counts as two GPUs.
    mi250x = cards_of("mi250x", specifications())
    assert share_of_peak(191.5, 1, "fp16", 1e12, mi250x) == pytest.approx(1.0)
