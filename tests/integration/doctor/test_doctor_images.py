"""The checks of ``portal doctor`` about images: real folders and programs."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

import pytest
from test_doctor import asked

from portal.doctor.checks import access, images
from portal.doctor.finding import Level, Result
from portal.models.cluster.cluster import Association

ME = pwd.getpwuid(os.geteuid()).pw_name


def config(place: Path, **more: str) -> str:
    values = {
        "directory": str(place / "images"),
        "log_directory": str(place / "logs"),
        "wheels": str(place / "wheels"),
        **more,
    }
    return "".join(f"c.Images.{name} = {value!r}\n" for name, value in values.items())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Folders as they should be."""
    for name, mode in (("images", 0o2775), ("logs", 0o711), ("wheels", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    return tmp_path


async def test_a_site_that_builds_no_images(tmp_path: Path) -> None:
    for one in (images.folder, images.account, images.programs, images.keys, images.wheel):
        finding = await asked(one, tmp_path)
        assert finding.level is Level.SKIPPED and "this site builds no images" in finding.found


async def test_the_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_room", lambda path: [])
    folder = place / "images"

    async def found() -> Result:
        site = await asked(images.folder, place, config(place))
        return Result(site.level, site.found, site.mend)

    level = (await found()).level
    assert level is not Level.FAILURE
    folder.chmod(0o2777)
    assert "everyone can write" in (await found()).found
    folder.chmod(0o2770)
    assert f"chmod o+rx {folder}" in (await found()).mend
    folder.chmod(0o2775)
    (place / "logs").rmdir()
    assert "cannot create logs" in (await found()).found
    folder.rmdir()
    assert (await found()).mend == f"install -d -o {ME} -g {ME} -m 2775 {folder}"


async def test_a_folder_of_somebody_else(place: Path) -> None:
    other = next(one.pw_name for one in pwd.getpwall() if one.pw_uid != os.geteuid())
    text = config(place, service_account=other)
    finding = await asked(images.folder, place, text)
    assert finding.level is Level.FAILURE
    assert f"'{other}', which builds images, does not own" in finding.found
    assert f"-o {other} " in finding.mend


def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, level in ((5, Level.FAILURE), (50, Level.WARNING), (500, Level.OK)):
        usage = type("Usage", (), {"free": free * 1e9})
        monkeypatch.setattr("shutil.disk_usage", lambda path, usage=usage: usage)
        (result,) = images._room(tmp_path)
        assert result.level is level
        assert ("prune --dry-run" in result.mend) is (level is not Level.OK)


async def test_the_account(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[tuple[Association, ...] | None] = [None]

    async def associations(self: object, user: str) -> tuple[Association, ...] | None:
        return known[0]

    monkeypatch.setattr("portal.slurm.Cluster.associations", associations)
    finding = await asked(images.account, place, config(place, service_account="nobody-such"))
    assert finding.level is Level.FAILURE and "useradd" in finding.mend
    finding = await asked(images.account, place, config(place))
    assert finding.level is Level.WARNING and "c.Images.service_account" in finding.mend
    known[0] = ()
    finding = await asked(images.account, place, config(place))
    assert finding.level is Level.FAILURE
    assert finding.mend.endswith(f"sacctmgr add user {ME} account=ACCOUNT")
    known[0] = (Association(user=ME, account="physics"),)
    assert (await asked(images.account, place, config(place))).level is Level.WARNING
    finding = await asked(images.account, place, config(place, slurm_account="services"))
    assert finding.mend.endswith(f"sacctmgr add user {ME} account=services")


async def test_the_programs(place: Path, tmp_path: Path) -> None:
    program = tmp_path / "apptainer"
    program.write_text("#!/bin/sh\necho apptainer version 1.4.5\n")
    program.chmod(0o755)
    text = config(place, apptainer=str(program))
    finding = await asked(images.programs, place, text)
    assert finding.level is Level.OK and "skopeo version" in finding.found
    finding = await asked(images.programs, place, text + "c.Registries.skopeo = '/no/skopeo'\n")
    assert finding.level is Level.FAILURE and "Install skopeo" in finding.mend
    finding = await asked(images.programs, place, config(place, apptainer="/no/apptainer"))
    assert finding.level is Level.WARNING and "Install Apptainer" in finding.mend


async def test_the_keys_of_signatures(place: Path) -> None:
    assert (await asked(images.keys, place, config(place))).level is Level.OK
    on = config(place) + "c.Images.verify = True\n"
    finding = await asked(images.keys, place, on)
    assert finding.level is Level.FAILURE and "c.Images.public_keys" in finding.mend
    file = place / "keys.pgp"
    on += f"c.Images.public_keys = {str(file)!r}\n"
    assert "No such file" in (await asked(images.keys, place, on)).found
    file.touch()
    assert "is empty, or not a file" in (await asked(images.keys, place, on)).found
    file.write_text("a key")
    file.parent.chmod(0o700)
    assert images._keys(str(file), "").mend.startswith("chmod o+x /")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # pytest's own are closed to others
        Path(folder).chmod(0o755)
        file = Path(folder) / "keys.pgp"
        file.write_text("a key")
        for mode, mend in ((0o640, f"chmod o+r {file}"), (0o646, f"chmod o-w {file}"), (0o644, "")):
            file.chmod(mode)
            assert images._keys(str(file), "").mend == mend


async def test_the_wheel(place: Path) -> None:
    finding = await asked(images.wheel, place, config(place))
    assert finding.level is Level.FAILURE and "pip wheel" in finding.mend
    wheel = place / "wheels/portal_session-1-py3-none-any.whl"
    wheel.touch(mode=0o600)
    wheel.chmod(0o600)
    assert (await asked(images.wheel, place, config(place))).mend == f"chmod 0644 {wheel}"
    wheel.chmod(0o644)
    assert (await asked(images.wheel, place, config(place))).level is Level.OK


async def test_the_key_of_passwords_is_a_secret(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("x")
    key.chmod(0o644)
    finding = await asked(access.secrets, tmp_path, f"c.Secrets.key_file = {str(key)!r}\n")
    assert finding.level is Level.FAILURE and f"chmod 600 {key}" in finding.mend
