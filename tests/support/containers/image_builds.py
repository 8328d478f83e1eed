"""Image jobs for tests: their descriptions, and their program, run as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from registry import Registry

from portal.demo.environments.apptainer import apptainer_environment, ensure_apptainer
from portal.demo.environments.making import locked, make_readable_directory
from portal.demo.environments.python_packages import session_key, session_wheel
from portal.demo.home import Home
from portal.errors import ConfigurationError
from portal.images.jobs.definition import image_path, recipe_key
from portal.launch.image_job import VARIABLE
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import ImageJob, Work

NOBODY = 65534
# As `python -I -m portal.images.job` of an installed portal, from the checkout.
_FIND = (
    f"import runpy, sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r}); "
    "runpy.run_module('portal.images.job', run_name='__main__')"
)
PROGRAM = (sys.executable, "-I", "-c", _FIND)
NONCE = "nonce-of-this-test"
REPOSITORY = "nvidia/small"


def program() -> Path:
    """Return the demo's Apptainer; skip the test if it is not available."""
    try:
        return ensure_apptainer(Home.find().cache, print)
    except ConfigurationError as error:
        pytest.skip(error.message)


def wheels() -> Path:
    """Return a folder with the wheel of portal-session, made once for its source."""
    cache = Home.find().cache
    with locked(cache, "test-wheels", print):
        folder = cache / "test-images" / f"wheels-{session_key()}"
        make_readable_directory(folder.parent)
        session_wheel(folder, cache)
    return folder


def build_job(directory: Path, source: str, digest: str, **more: object) -> ImageJob:
    """Return a job that builds ``source`` into ``directory``."""
    folder = str(wheels())
    environment = Environment(name="small", title="Small", kind="container", source=source)
    values = {
        "apptainer": str(program()),
        "directory": str(directory),
        "source": source,
        "digest": digest,
        "target": str(image_path(str(directory), digest, recipe_key(folder))),
        "wheels": folder,
    }
    return ImageJob(work=Work.BUILD, nonce=NONCE, environment=environment, **{**values, **more})


def mirror(registry: Registry, file: Path) -> str:
    """Write a registries.conf with ``registry`` in place of nvcr.io; return its path."""
    file.write_text(
        f'[[registry]]\nlocation="nvcr.io"\n[[registry.mirror]]\nlocation="{registry.host}"\n'
        "insecure=true\n"
    )
    file.chmod(0o644)
    return str(file)


def give(path: Path) -> Path:
    """Create a folder for the user that jobs run as."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


def start(job: ImageJob, home: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the job's program as an ordinary user, as Slurm does."""
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with log.open("ab") as out:
        return subprocess.Popen(
            [
                *(become if os.geteuid() == 0 else []),
                *PROGRAM,
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                VARIABLE: job.model_dump_json(),
                **{k: v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_", "SSL_"))},
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
            start_new_session=True,
        )


def limited_root() -> dict[str, str]:
    """Return the variables for Apptainer in this process."""
    return apptainer_environment()
