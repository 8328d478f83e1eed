"""Apptainer and the container environment, as the demo makes them: real programs, a real image."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from test_session_package import PATIENCE, TOKEN, a_hub, session_environment

from portal.demo.environments import apptainer as private
from portal.demo.environments.apptainer import (
    apptainer_environment,
    ensure_apptainer,
    users_can_mount,
)
from portal.demo.environments.debian import distribution_mirror
from portal.demo.environments.environments import ensure_environments
from portal.demo.home import Home
from portal.demo.namespace import allowed
from portal.errors import ConfigurationError
from portal.session_packages import pip_settings

pytestmark = pytest.mark.containers

NOBODY = 65534
# The host's /dev/fuse is often closed to users; here, and only here, it is open.
OPEN_FUSE = (
    "mount -t tmpfs none /mnt && mknod -m 666 /mnt/fuse c 10 229 && "
    'mount --bind /mnt/fuse /dev/fuse && exec "$@"'
)


@pytest.fixture(scope="session")
def home() -> Home:
    return Home.find()


@pytest.fixture(scope="session")
def apptainer(home: Home) -> Path:
    try:
        return ensure_apptainer(home.cache, print)
    except ConfigurationError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def wrapper() -> list[str]:
    """What stands before a command so that users can mount images; empty where they can."""
    if not users_can_mount() and allowed():
        namespace = ["unshare", "--mount", "--propagation", "private"]
        return [*namespace, "sh", "-c", OPEN_FUSE, "sh"]
    return []


@pytest.fixture(scope="session")
def environments(home: Home, apptainer: Path, wrapper: list[str]) -> Iterator[dict[str, dict]]:
    """The demo's environments by name, made in the shared cache, their files elsewhere."""
    with tempfile.TemporaryDirectory() as place:
        sandbox = False if wrapper else None
        try:
            made = ensure_environments(Path(place), home.cache, apptainer, print, sandbox=sandbox)
        except ConfigurationError as error:
            pytest.skip(error.message)
        found = [yaml.safe_load(path.read_text()) for path in made.files.glob("*.yaml")]
        yield {environment["name"]: environment for environment in found}


@pytest.fixture
def person() -> Iterator[Path]:
    """A home directory of another OS user (of this one, where that takes rights we lack)."""
    with tempfile.TemporaryDirectory() as place:
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
        yield Path(place)


@pytest.fixture
def in_image(apptainer, environments, wrapper, person):
    """Runs a command in the container environment as that user, with a clean environment."""

    def run(*command: str, flags: tuple[str, ...] = (), **variables: str):
        argv = argv_for(apptainer, environments["jupyterlab"]["image"], person, wrapper, *flags)
        return subprocess.run(
            [*argv, *command],
            env={"PATH": os.environ["PATH"], "HOME": str(person), **variables},
            capture_output=True,
            text=True,
            timeout=120,
            cwd="/",
        )

    return run


def argv_for(apptainer: Path, image: str, person: Path, wrapper: list[str], *flags: str):
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    options = ["--cleanenv", "--no-eval", "--no-mount", "cwd", "--home", str(person), *flags]
    who = become if os.geteuid() == 0 else []
    return [*wrapper, *who, apptainer, "exec", *options, "--pwd", str(person), image]


def test_another_user_runs_it(in_image):
    if os.geteuid() != 0:
        pytest.skip("becoming another user takes root")
    done = in_image("id", "-u")
    assert done.stdout.strip() == str(NOBODY), done.stderr


def test_root_runs_it(apptainer, environments):
    if os.geteuid() != 0:
        pytest.skip("this is about root")
    image = environments["jupyterlab"]["image"]
    done = subprocess.run(
        [apptainer, "exec", image, "true"],
        env={**os.environ, **apptainer_environment()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_the_session_package_is_in_the_image(in_image):
    source = Path(__file__).parents[3] / "kernels/portal_session/__init__.py"
    version = re.search(r'__version__ = "(.+)"', source.read_text()).group(1)
    code = "import portal_session, jupyterlab; print(portal_session.__version__)"
    done = in_image("python3", "-I", "-c", code)
    assert done.stdout.strip() == version, done.stderr


def test_the_server_of_jupyterhub_6_runs_in_it(in_image):
    done = in_image("jupyterhub-singleuser", "--version")
    assert done.stdout.startswith("6."), done.stderr


def test_variables_pass_with_their_prefix_only_and_are_not_evaluated(in_image):
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    hostile = "$(id) `id` $HOME 'x\""
    done = in_image("python3", "-c", code, APPTAINERENV_HERE=hostile, NOT_HERE="1")
    inside = json.loads(done.stdout)
    assert inside["HERE"] == hostile
    assert "NOT_HERE" not in inside


def test_pip_installs_for_the_person_in_this_environment_only(in_image, person):
    wheel = a_wheel(person, "portal_test_package")
    one, other = str(person / ".portal/one"), str(person / ".portal/other")
    pip = ("python3", "-m", "pip", "install", "--no-index", "--disable-pip-version-check")
    done = in_image(*pip, str(wheel), APPTAINERENV_PYTHONUSERBASE=one)
    assert done.returncode == 0, done.stderr
    asks = ("-c", "import portal_test_package as p; print(p.__file__)")
    found = in_image("python3", *asks, APPTAINERENV_PYTHONUSERBASE=one)
    assert found.stdout.startswith(one)
    assert in_image("python3", *asks, APPTAINERENV_PYTHONUSERBASE=other).returncode != 0
    assert in_image("python3", "-I", *asks, APPTAINERENV_PYTHONUSERBASE=one).returncode != 0


def test_pip_installs_for_the_person_in_the_venv_too(environments, person):
    """A virtual environment switches the user's packages off; portal-session brings them back."""
    wheel = a_wheel(person, "portal_test_package")
    python = f"{environments['python-venv']['path']}/bin/python3"
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    who = become if os.geteuid() == 0 else []
    one = str(person / ".portal/one")

    def run(*command: str, base: str):
        variables = {"PATH": os.environ["PATH"], "HOME": str(person), "PYTHONUSERBASE": base}
        return subprocess.run(
            [*who, python, *command], env=variables, capture_output=True, text=True, timeout=60
        )

    pip = ("-m", "pip", "install", "--no-index", "--disable-pip-version-check", str(wheel))
    done = run(*pip, base=one)
    assert done.returncode == 0, done.stderr
    asks = ("-c", "import portal_test_package as p; print(p.__file__)")
    assert run(*asks, base=one).stdout.startswith(one)
    assert run(*asks, base=str(person / "other")).returncode != 0
    assert run("-I", *asks, base=one).returncode != 0


def test_no_address_of_this_machine_is_in_the_image(apptainer, environments, in_image):
    image = environments["jupyterlab"]["image"]
    said = "".join(
        subprocess.run(
            [apptainer, "inspect", flag, image], capture_output=True, text=True, timeout=60
        ).stdout
        for flag in ("--labels", "--deffile", "--environment", "--runscript")
    )
    assert "localimage" in said
    settings = pip_settings()
    urls = [distribution_mirror(), settings.get("index-url", "")]
    urls += settings.get("extra-index-url", "").split()
    places = {urlsplit(url).netloc or urlsplit(url).path for url in urls if url}
    assert places
    for place in places:
        assert place not in said
    look = "grep -rIlFs -e {} /etc /.singularity.d /usr/local/bin /usr/local/etc /root"
    for place in places:
        done = in_image("sh", "-c", look.format(f"'{place}'"))
        # os-release and issue name the distribution's home page, which is nobody's mirror.
        assert not done.stdout.strip(), done.stdout


def test_the_second_time_nothing_is_made(apptainer, environments, home, wrapper, tmp_path):
    lines: list[str] = []
    sandbox = False if wrapper else None
    made = ensure_environments(tmp_path, home.cache, apptainer, lines.append, sandbox=sandbox)
    assert lines == []
    again = {path.stem: yaml.safe_load(path.read_text()) for path in made.files.glob("*.yaml")}
    assert again["jupyterlab"]["image"] == environments["jupyterlab"]["image"]


def test_the_demo_modules_load_in_the_job_script(environments, tmp_path):
    if not shutil.which("modulecmd") and not Path("/usr/share/modules/init/bash").exists():
        pytest.skip("environment-modules is not installed")
    modules = environments["modules"]
    done = subprocess.run(
        [Path(__file__).parents[3] / "deploy/session.sh", "printenv", "CUDA_DEMO_VERSION"],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "PORTAL_KIND": "modules",
            "PORTAL_MODULES": " ".join(modules["modules"]),
            "APPTAINERENV_MODULEPATH": modules["variables"]["MODULEPATH"],
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "1.0", done.stderr


def test_a_private_copy_that_was_moved_is_adjusted(apptainer, home, tmp_path):
    if not apptainer.is_relative_to(home.cache):
        pytest.skip("Apptainer is installed here; there is no private copy to move")
    moved = tmp_path / "elsewhere"
    shutil.copytree(home.cache / "apptainer", moved / "apptainer", symlinks=True)
    # As after `mv`: the loader that the programs name is gone.
    for path in moved.glob("apptainer/**/*"):
        if path.name in ("apptainer", "starter") and path.is_file() and not path.is_symlink():
            ask = ["patchelf", "--print-interpreter", path]
            loader = subprocess.run(ask, capture_output=True, text=True, timeout=60).stdout.strip()
            gone = f"/nonexistent/{Path(loader).name}"
            subprocess.run(["patchelf", "--set-interpreter", gone, path], check=True, timeout=60)
    assert not private.apptainer_version(moved / "apptainer/bin/apptainer")
    lines: list[str] = []
    program = ensure_apptainer(moved, lines.append)
    assert program == moved / "apptainer/bin/apptainer"
    assert private.apptainer_version(program) == private.apptainer_version(apptainer)
    assert not any("fetching" in line for line in lines)
    assert (program.parent / "singularity").resolve() == program  # spython looks for this name


async def test_a_session_in_the_container_tells_its_port(
    apptainer, environments, wrapper, person, tmp_path
):
    image = environments["jupyterlab"]["image"]
    argv = argv_for(apptainer, image, person, wrapper, "--nv")
    async with a_hub([]) as (hub, api):
        variables = session_environment(person, api)
        passed = {f"APPTAINERENV_{k}": v for k, v in variables.items() if k not in ("PATH", "HOME")}
        allow_root = ["--allow-root"] if os.geteuid() == 0 else []
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(
                [*argv, "python3", "-I", "-m", "portal_session", *allow_root],
                env={"PATH": os.environ["PATH"], "HOME": str(person), **passed},
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        try:
            await asyncio.wait_for(hub.accepted.wait(), PATIENCE)
            port = json.loads(hub.posts[0][1].body)["port"]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /user/ada/api HTTP/1.0\r\n\r\n")
            assert b"200" in await asyncio.wait_for(reader.readline(), PATIENCE)
            writer.close()
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    assert TOKEN.encode() not in line.read_bytes()
                except OSError:
                    continue  # it ended meanwhile
            process.terminate()
            assert await asyncio.to_thread(process.wait, PATIENCE) == 0
            assert (person / ".portal/test").stat().st_mode & 0o077 == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()


def test_a_package_that_is_not_apptainer_is_not_taken(tmp_path, monkeypatch):
    """Debian has a game with the name singularity."""
    game = tmp_path / "singularity"
    game.write_text("#!/bin/sh\necho 'singularity 1.00'\n")
    game.chmod(0o755)
    assert not private.apptainer_version(game)
    assert not private.apptainer_version(tmp_path / "missing")


def a_wheel(directory: Path, name: str) -> Path:
    """A wheel with one empty module, made here so that no index is needed."""
    path = directory / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = []
    with zipfile.ZipFile(path, "w") as archive:
        for target, text in files.items():
            archive.writestr(target, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record.append(f"{target},sha256={digest.rstrip(b'=').decode()},{len(text)}")
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return path
