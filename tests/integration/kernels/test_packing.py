"""Folders that are packed and bound with the real mksquashfs and squashfuse, by portal-pack in a
real session's server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import patience
from portal_session.packing.binding import PREFIX, Binding, remove_leftovers
from portal_session.packing.packer import Packer
from portal_session.packing.places import Packed, Places
from session_server import KERNELS, SessionServer, a_server, make_python, wait_for

NOBODY = 65534
_AS_NOBODY = """
import sys, time
from pathlib import Path
from portal_session.packing.packer import Packer
packer = Packer(Path(sys.argv[1]), 1, lambda name: "")
progress = packer.start(sys.argv[2])
while progress.living:
    time.sleep(0.05)
print(progress.state, progress.words)
"""


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    for name in ("mksquashfs", "squashfuse"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("this account may not open /dev/fuse")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("python") / "venv")


@pytest.fixture
def server(python: Path) -> Iterator[SessionServer]:
    job = {"SLURM_JOB_ID": "7", "PORTAL_SERVICE_URL": "http://127.0.0.1:9/p/"}
    with a_server(python, JUPYTERHUB_API_TOKEN="t", **job) as server:
        yield server


def folder_of_files(folder: Path, count: int = 300) -> Path:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number}.txt").write_text(f"file {number}\n")
    (folder / "link").symlink_to("3.txt")
    return folder


def portal_pack(
    python: Path, server: SessionServer, *arguments: str
) -> subprocess.CompletedProcess[str]:
    (broker,) = (server.home / "t").glob("portal-kernels-*/broker")
    return subprocess.run(
        [python, "-m", "portal_session.packing.command", *arguments],
        env={"PATH": os.environ["PATH"], "PORTAL_KERNEL_BROKER": str(broker)},
        cwd=server.home,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )


def mounted(below: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [place for line in lines if Path(place := line.split()[4]).is_relative_to(below)]


def test_a_session_packs_a_folder_and_binds_it(python: Path, server: SessionServer) -> None:
    data = folder_of_files(server.home / "data")
    before = sorted((path.name, path.lstat().st_mtime_ns) for path in data.iterdir())
    done = portal_pack(python, server, "data")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"301 files are in {server.home}/data.sqsh (")
    state = server.client.get("portal/packing").json()
    (item,) = state["items"]
    place = Path(item["path"])
    assert str(place) in done.stdout
    assert (place / "7.txt").read_text() == "file 7\n"
    assert (place / "link").readlink() == Path("3.txt")
    assert len(list(place.iterdir())) == 301
    with pytest.raises(OSError, match=r"Read-only file system|Function not implemented"):
        (place / "new").write_text("")
    assert sorted((path.name, path.lstat().st_mtime_ns) for path in data.iterdir()) == before
    assert state["progress"]["state"] == "packed"
    # The variable is there in what starts now.
    started = server.client.post("api/kernels", json={}).json()
    (kernel,) = (
        path
        for path in Path("/proc").glob("[0-9]*")
        if started["id"].encode() in _bytes(path / "cmdline")
    )
    assert f"PORTAL_PACKED={place.parent}".encode() in _bytes(kernel / "environ").split(b"\0")
    listed = portal_pack(python, server)
    assert listed.stdout == f"data  {place}\n  image: {server.home}/data.sqsh\n"
    again = portal_pack(python, server, "data")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith(f"portal-pack: {server.home}/data.sqsh exists already.")
    refused = server.client.post("portal/packing", json={"folder": 7})
    assert (refused.status_code, refused.json()["field"]) == (400, "folder")
    assert portal_pack(python, server, "--forget", "data").returncode == 0
    assert portal_pack(python, server).stdout.startswith("Nothing is packed.")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_next_session_binds_it_and_unmounts_it_at_its_end(python: Path, tmp_path: Path) -> None:
    folder_of_files(tmp_path / "data", 10)
    packer = Packer(tmp_path, 1, lambda name: "")
    progress = packer.start(str(tmp_path / "data"))
    wait_for(lambda: not progress.living)
    assert progress.state == "packed", progress.words
    with a_server(python, HOME=str(tmp_path)) as server:
        place = wait_for(lambda: server.client.get("portal/packing").json()["items"][0]["path"])
        assert (Path(place) / "7.txt").read_text() == "file 7\n"
        temporary = server.home / "t"
    assert mounted(temporary) == []


def test_a_damaged_image_is_told(tmp_path: Path) -> None:
    places = Places(tmp_path)
    image = tmp_path / "data.sqsh"
    image.write_bytes(b"no image")
    places.add_link("data", image)
    environ: dict[str, str] = {}
    binding = Binding(places, environ)
    assert binding.bind(Packed("data", str(image))).startswith("This session could not bind it: ")
    (state,) = binding.states()
    assert state["path"] == ""
    assert state["reason"]
    assert environ == {}
    binding.close()


def test_mounts_of_a_killed_session_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of_files(tmp_path / "data", 10)
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    packer = Packer(tmp_path, 1, lambda name: "")
    progress = packer.start(str(tmp_path / "data"))
    wait_for(lambda: not progress.living)
    (packed,) = packer.places.packed()
    killed, living = Binding(packer.places, {}), Binding(packer.places, {})
    for binding in (killed, living):
        binding.bind(packed)
        assert binding.path("data")
    place = Path(killed.path("data"))
    killed._running["data"].send_signal(signal.SIGKILL)
    killed._running["data"].wait()
    with pytest.raises(OSError, match="endpoint is not connected"):
        list(place.iterdir())
    remove_leftovers(temporary)
    assert not place.parent.exists()
    assert (Path(living.path("data")) / "7.txt").exists()
    living.close()
    assert list(temporary.glob(f"{PREFIX}*")) == []


def test_a_file_that_cannot_be_read_fails_the_packing(tmp_path: Path) -> None:
    """mksquashfs alone would put an empty file in its place."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user takes root")
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001 and folder.is_relative_to("/tmp"):
            folder.chmod(0o711)
    home = tmp_path / "home"
    data = folder_of_files(home / "data", 10)
    (data / "5.txt").chmod(0o600)
    os.chown(home, NOBODY, NOBODY)
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    done = subprocess.run(
        [*user, "/usr/bin/python3", "-c", _AS_NOBODY, str(home), str(data)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(KERNELS), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert done.stdout.startswith("failed mksquashfs failed: "), (done.stdout, done.stderr)
    assert "5.txt" in done.stdout
    assert [path.name for path in home.iterdir()] == ["data"]


def test_packing_is_cancelled(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(4):
        (data / str(number)).write_bytes(os.urandom(1 << 20) * 40)
    packer = Packer(tmp_path, 1, lambda name: "")
    progress = packer.start(str(data))
    wait_for(lambda: progress.state == "packing")
    time.sleep(0.05)
    packer.close()
    assert (progress.state, progress.words) == ("cancelled", "Packing was cancelled.")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
