"""Packed folders in containers: the job script binds the images, as an ordinary user, with the real
Apptainer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_apptainer import NOBODY, apptainer, environments, home, person, wrapper  # noqa: F401

from portal.launch.container import session_script

pytestmark = pytest.mark.containers
SHOW = """echo "$PORTAL_PACKED [$PORTAL_PACKED_NAMES]"
cat "$PORTAL_PACKED/data/a.txt"
echo x >"$PORTAL_PACKED/data/b"
"""
Session = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def session(apptainer, environments, wrapper, person) -> Session:  # noqa: F811
    """Runs a session's job script as a user whose home has a packed folder."""
    image = environments["jupyterlab"]["image"]
    packed = person / ".portal/packed"
    (packed / "data").mkdir(parents=True)
    (person / "data").mkdir()
    (person / "data/a.txt").write_text("packed")
    made = ["mksquashfs", person / "data", person / "data.sqsh", "-quiet", "-no-progress"]
    if shutil.which("mksquashfs") is None:
        pytest.skip("mksquashfs is not installed")
    subprocess.run(made, check=True, timeout=60, stdout=subprocess.DEVNULL)
    (packed / "data.sqsh").symlink_to(person / "data.sqsh")
    if os.geteuid() == 0:
        for path in (person, *person.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def run(kind: str = "container", **env: str) -> subprocess.CompletedProcess[str]:
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        argv = [*wrapper, *(user if os.geteuid() == 0 else []), str(session_script())]
        command = [apptainer, "exec", "--cleanenv", "--no-eval", "--no-mount", "cwd"]
        command += ["--pwd", str(person), "--bind", "/usr/share:/mnt:ro", image, "sh", "-c", SHOW]
        if kind != "container":
            command = ["sh", "-c", f'{SHOW}echo "$APPTAINER_BINDPATH"']
        return subprocess.run(
            [*argv, *command],
            env={
                "PATH": "/usr/bin:/bin:/usr/sbin",
                "HOME": str(person),
                "PORTAL_KIND": kind,
                "PORTAL_IMAGE": image,
                "PORTAL_APPTAINER": str(apptainer),
                "SLURM_JOB_ID": "7",
                **env,
            },
            capture_output=True,
            text=True,
            timeout=120,
            cwd="/",
            check=False,
        )

    return run


def test_a_container_has_the_packed_folder_read_only(session: Session, person: Path) -> None:  # noqa: F811
    done = session(APPTAINER_BINDPATH="/usr/lib:/srv")
    assert done.stdout == f"{person}/.portal/packed [data]\npacked", done.stderr
    assert "Read-only file system" in done.stderr
    assert not (person / ".portal/packed/data/b").exists()


def test_kernels_beside_their_server_bind_it_themselves(session: Session, person: Path) -> None:  # noqa: F811
    done = session("beside")
    assert done.stdout.splitlines()[0] == f"{person}/.portal/packed [data]"
    assert done.stdout.splitlines()[-1] == ""


def test_an_image_that_cannot_be_mounted_ends_no_session(session: Session, person: Path) -> None:  # noqa: F811
    image = person / "data.sqsh"
    image.write_bytes(image.read_bytes()[:100])
    done = session()
    assert done.stdout == f"{person}/.portal/packed []\n", done.stderr
    assert "The packed folder 'data' is not bound: " in done.stderr
    image.unlink()
    done = session()
    assert done.stdout == f"{person}/.portal/packed []\n", done.stderr
    assert "packed folder" not in done.stderr


def test_names_that_would_be_options_are_left_out(session: Session, person: Path) -> None:  # noqa: F811
    packed = person / ".portal/packed"
    for name in ("a:b", "a,b", "-x", "$(id)"):
        (packed / name).mkdir()
        (packed / f"{name}.sqsh").symlink_to(person / "data.sqsh")
    done = session()
    assert done.stdout.startswith(f"{packed} [data]\npacked"), done.stderr
