"""Folders of Jupyter in a session, whatever an image or the node's prolog has set."""

from __future__ import annotations

from pathlib import Path

import pytest
from portal_session.places import set_places
from portal_session.programs.runtime import Runtime

FOLDERS = {
    "JUPYTER_DATA_DIR": "share/jupyter",
    "JUPYTER_CONFIG_DIR": "jupyter",
    "JUPYTER_RUNTIME_DIR": "jupyter/runtime",
    "IPYTHONDIR": "ipython",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def places(home: Path, **given: str) -> dict[str, str]:
    environ = {"PYTHONUSERBASE": str(home / "base"), "PATH": "/usr/bin", **given}
    set_places(environ)
    return environ


def test_they_are_the_environments_own(home: Path) -> None:
    environ = places(home)
    assert {name: environ[name] for name in FOLDERS} == {
        name: str(home / "base" / path) for name, path in FOLDERS.items()
    }


@pytest.mark.parametrize("name", [*FOLDERS, "JUPYTERLAB_SETTINGS_DIR"])
@pytest.mark.parametrize("given", ["/proc/none/at/all", "relative", "/dev/null", ""])
def test_a_folder_that_cannot_be_used_stops_nobody(
    home: Path,
    name: str,
    given: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(home)
    environ = places(home, **{name: given})
    assert environ[name] == places(home)[name]
    assert (f"{name}={given}: this account cannot use" in capsys.readouterr().err) == bool(given)
    assert not (home / "relative").exists()


def test_a_folder_of_the_site_stays(home: Path) -> None:
    given = {name: str(home / "site" / name) for name in FOLDERS}
    environ = places(home, **given)
    assert {name: environ[name] for name in FOLDERS} == given


def test_the_runtime_folder_has_keys_and_is_private(home: Path) -> None:
    shared = home / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    environ = places(home, JUPYTER_RUNTIME_DIR=str(shared), JUPYTER_DATA_DIR=str(shared))
    assert environ["JUPYTER_RUNTIME_DIR"] == str(home / "base/jupyter/runtime")
    assert environ["JUPYTER_DATA_DIR"] == str(shared)


def test_what_an_image_has_in_such_a_folder_is_found_all_the_same(home: Path) -> None:
    image = {"JUPYTER_DATA_DIR": "/proc/data", "JUPYTER_CONFIG_DIR": "/proc/config"}
    environ = places(home, **image, JUPYTER_PATH="/site")
    assert environ["JUPYTER_PATH"] == "/site:/proc/data"
    assert environ["JUPYTER_CONFIG_PATH"] == "/proc/config"


def test_an_image_without_configuration_reaches_its_hub(home: Path) -> None:
    assert "JUPYTER_NO_CONFIG" not in places(home, JUPYTER_NO_CONFIG="1")


def test_sockets_are_not_where_logging_out_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, temporary = tmp_path / "run", tmp_path / "t"
    for folder in (runtime, temporary):
        folder.mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    made = Runtime.make({"XDG_RUNTIME_DIR": str(runtime)})
    assert made.path.parent == temporary
    made.remove()
