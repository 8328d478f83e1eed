"""The Hub's variables, as its unit says them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from portal.backup import variables
from portal.backup.variables import UNIT, adopt_variables

NAMES = ("PORTAL_CONFIG_D", "PORTAL_GATEWAY_STATE", "PORTAL_SERVICE_PORT", "PORTAL_X")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Folders of units, the stronger one first."""
    made = (tmp_path / "etc", tmp_path / "lib")
    for folder in made:
        folder.mkdir()
    monkeypatch.setattr(variables, "FOLDERS", made)
    for name in NAMES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return made


def adopted(config: Path) -> tuple[dict[str, str], list[str]]:
    problems = adopt_variables(config)
    return {name: os.environ[name] for name in NAMES if name in os.environ}, problems


def test_a_unit_its_additions_and_its_files(folders: tuple[Path, Path], tmp_path: Path) -> None:
    strong, weak = folders
    config, file = tmp_path / "hub.py", tmp_path / "secrets.env"
    file.write_text("# PORTAL_X=no\nCONFIGPROXY_AUTH_TOKEN=t\nPORTAL_GATEWAY_STATE='/of a file'\n")
    (weak / UNIT).write_text(
        f"[Service]\nExecStart=/x/jupyterhub -f {config}\nEnvironmentFile={file}\n"
        "EnvironmentFile=-/nowhere\n"
        'Environment="PORTAL_CONFIG_D=/with space" PORTAL_GATEWAY_STATE=/weaker \\\n'
        "    PORTAL_SERVICE_PORT=1\nEnvironment=HOME=/x\n# Environment=PORTAL_X=no\n"
    )
    (strong / f"{UNIT}.d").mkdir()
    (strong / f"{UNIT}.d" / "override.conf").write_text(
        "[Service]\nEnvironment=PORTAL_SERVICE_PORT=2\nEnvironment=PORTAL_SERVICE_PORT=3\n"
    )
    expected = {
        "PORTAL_CONFIG_D": "/with space",
        "PORTAL_GATEWAY_STATE": "/of a file",
        "PORTAL_SERVICE_PORT": "3",
    }
    assert adopted(config) == (expected, [])
    assert "CONFIGPROXY_AUTH_TOKEN" not in os.environ


def test_what_the_process_has_itself_wins(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_X", "own")
    text = f"ExecStart=/x/jupyterhub -f {tmp_path}/hub.py\nEnvironment=PORTAL_X=other\n"
    (folders[0] / UNIT).write_text(text)
    assert adopted(tmp_path / "hub.py") == ({"PORTAL_X": "own"}, [])


def test_a_unit_of_another_configuration_says_nothing(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (folders[0] / UNIT).write_text("ExecStart=/x/jupyterhub -f /other.py\nEnvironment=PORTAL_X=1\n")
    assert adopted(tmp_path / "hub.py") == ({}, [])


def test_a_file_that_cannot_be_read_is_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    text = f"ExecStart=/x/jupyterhub -f {tmp_path}/hub.py\nEnvironmentFile={tmp_path}/none\n"
    (folders[0] / UNIT).write_text(text + 'Environment="PORTAL_X=1\n')
    found, (problem,) = adopted(tmp_path / "hub.py")
    assert not found
    assert problem.startswith(f"{tmp_path}/none: No such file or directory: variables such as")
    assert "PORTAL_GATEWAY_STATE" in problem
