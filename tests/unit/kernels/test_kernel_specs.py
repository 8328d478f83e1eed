"""Kernelspecs as jupyter_client finds them, without what it loads for that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from portal_session.kernels.kernels import SessionKernelSpecs
from portal_session.kernels.plain_spec import plain_spec


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Folder of a kernel, "train", in a person's places."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    for name in ("PORTAL_KERNELS", "PORTAL_CONTAINER"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "kernels/train"
    _write(folder, {})
    return folder


def _write(folder: Path, metadata: dict[str, object], **more: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"argv": ["train"], "display_name": "Train", "language": "c", "metadata": metadata}
    (folder / "kernel.json").write_text(json.dumps({**spec, **more}))


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


def test_one_that_is_read_without_jupyter_client_is_the_same(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(kernels, {"debugger": True}, env={"A": "${B}"}, interrupt_mode="message")
    _write(tmp_path / "later/kernels/train", {})
    monkeypatch.setenv("JUPYTER_PATH", f"{tmp_path}:{tmp_path / 'later'}")
    plain, whole = plain_spec("train"), SessionKernelSpecs().get_kernel_spec("train")
    assert plain is not None
    assert plain._asdict() == {name: getattr(whole, name) for name in plain._fields}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"argv": [', "{}", '{"argv": 3}', '{"argv": ["a"], "env": ["a"]}']
)
def test_one_that_cannot_be_read_is_left_to_jupyter_client(kernels: Path, text: str) -> None:
    (kernels / "kernel.json").write_text(text)
    assert plain_spec("train") is None
    assert plain_spec("unknown") is None


def test_only_the_environments_own_are_read_without_jupyter_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert plain_spec("train") is not None
    monkeypatch.setenv("PORTAL_KERNELS", json.dumps([{"name": "train", "title": "Train"}]))
    assert plain_spec("train") is not None
    monkeypatch.setenv("PORTAL_KERNELS", json.dumps([{"name": "other", "title": "Other"}]))
    assert plain_spec("train") is None, "this session does not show it"
    monkeypatch.delenv("PORTAL_KERNELS")
    monkeypatch.setenv("PORTAL_CONTAINER", json.dumps({"exec": ["a"], "image": "i", "roots": []}))
    assert plain_spec("train") is None, "the container has kernelspecs of its own"


@pytest.mark.parametrize(
    ("more", "logo"),
    [
        ({"language": "bash"}, "logo-svg.svg"),
        ({"language": "python"}, "logo-64x64.png"),
        ({"language": "c"}, ""),
        # Its command is in its own folder.
        ({"language": "bash", "argv": ["{resource_dir}/run"]}, ""),
    ],
)
def test_a_kernel_without_a_logo_has_its_languages(
    kernels: Path, more: dict[str, object], logo: str
) -> None:
    _write(kernels, {}, **more)
    specs = SessionKernelSpecs()
    folders = {specs.get_all_specs()["train"]["resource_dir"]}
    folders.add(specs.get_kernel_spec("train").resource_dir)
    (folder,) = folders
    assert Path(folder, logo).is_file() if logo else folder == str(kernels)
    (kernels / "logo-own.svg").write_text("")
    assert specs.get_all_specs()["train"]["resource_dir"] == str(kernels)
