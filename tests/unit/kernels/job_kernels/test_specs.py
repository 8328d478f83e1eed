"""Kernelspecs of kernels in jobs of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec
from portal_session.job_kernels import specs

KERNEL = {"name": "python3", "title": "Python 3", "language": "python"}
TORCH = {"environment": "pytorch", "title": "PyTorch", "kernels": [KERNEL]}
TIMES = "\u00d7"


@pytest.mark.parametrize(
    ("gpu_types", "names", "titles"),
    [
        (
            ["t4", "v100"],
            ["job-pytorch-python3-t4", "job-pytorch-python3-v100"],
            [f"Python · 1 {TIMES} T4 · PyTorch", f"Python · 1 {TIMES} V100 · PyTorch"],
        ),
        ([], ["job-pytorch-python3"], ["Python · 1 GPU · PyTorch"]),
    ],
)
def test_each_gpu_type_has_one(gpu_types: list[str], names: list[str], titles: list[str]) -> None:
    offered = list(specs.offered({"items": [{**TORCH, "gpu_types": gpu_types}]}))
    assert [spec.name for spec in offered] == names
    assert [spec.title for spec in offered] == titles


def test_what_is_written_is_a_kernelspec_of_jupyter(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"gpus": 2, "gpu_type": "v100", "time": "2:00:00"}
    spec = specs.spec_of(TORCH, KERNEL, chosen)
    assert spec.title == f"Python · 2 {TIMES} V100, 2 h · PyTorch"
    (name,) = specs.write(tmp_path, [spec])
    read = KernelSpec.from_resource_dir(str(tmp_path / "kernels" / name))
    assert read.display_name == spec.title
    request = json.loads(read.argv[read.argv.index("--request") + 1])
    assert request == {"environment": "pytorch", "kernel": "python3", **chosen}
    # Other resources are another kernelspec; what is no longer offered or chosen goes.
    assert specs.spec_of(TORCH, KERNEL, {**chosen, "gpus": 4}).name != name
    specs.write(tmp_path, list(specs.offered({"items": [{**TORCH, "gpu_types": ["t4"]}]})))
    specs.keep_only(tmp_path, {name})
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == [name]


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    kernel = {**KERNEL, "name": "../../x Y"}
    (name,) = specs.write(tmp_path, [specs.spec_of(TORCH, kernel, {"gpus": 1})])
    assert "/" not in name
    assert (tmp_path / "kernels" / name / "kernel.json").exists()


def test_a_kernel_is_known_by_its_logo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own/kernels/python3"
    own.mkdir(parents=True)
    (own / "logo-64x64.png").write_bytes(b"logo")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "own"))
    (name,) = specs.write(tmp_path, [specs.spec_of(TORCH, KERNEL, {"gpus": 1})])
    assert (tmp_path / "kernels" / name / "logo-64x64.png").read_bytes() == b"logo"


def test_the_sessions_own_environment_is_not_in_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_ENVIRONMENT", "pytorch")
    own = {"title": "Python 3 (ipykernel)", "name": "python3"}
    v100 = {"gpus": 1, "gpu_type": "v100"}
    assert specs.spec_of(TORCH, own, v100).title == f"Python · 1 {TIMES} V100"
    assert specs.spec_of(TORCH, {**own, "title": "R"}, v100).title == f"R · 1 {TIMES} V100"
    other = {**TORCH, "environment": "other"}
    assert specs.spec_of(other, own, v100).title == f"Python · 1 {TIMES} V100 · PyTorch"
