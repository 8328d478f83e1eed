"""Kernelspecs as jupyter_client finds them, without what it loads for that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from portal_session.kernels.kernels import SessionKernelSpecs


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Folder of a kernel, "train", in a person's places."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.delenv("PORTAL_KERNELS", raising=False)
    folder = tmp_path / "kernels/train"
    folder.mkdir(parents=True)
    _write(folder, {})
    return folder


def _write(folder: Path, metadata: dict[str, object]) -> None:
    spec = {"argv": ["train"], "display_name": "Train", "language": "c", "metadata": metadata}
    (folder / "kernel.json").write_text(json.dumps(spec))


@pytest.mark.parametrize("own", [False, True])
def test_the_folders_are_those_of_jupyter_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: bool
) -> None:
    monkeypatch.delenv("IPYTHONDIR", raising=False)
    if own:
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "own"))
    assert SessionKernelSpecs().kernel_dirs == KernelSpecManager().kernel_dirs


@pytest.mark.parametrize("name", ["train", "Train", "python3"])
def test_a_kernelspec_is_the_one_of_jupyter_client(name: str) -> None:
    ours, theirs = SessionKernelSpecs(), KernelSpecManager()
    assert ours.get_kernel_spec(name).to_dict() == theirs.get_kernel_spec(name).to_dict()


def test_one_with_a_provisioner_that_is_not_installed_is_refused(kernels: Path) -> None:
    _write(kernels, {"kernel_provisioner": {"provisioner_name": "nowhere"}})
    with pytest.raises(KeyError):
        SessionKernelSpecs().get_kernel_spec("train")
