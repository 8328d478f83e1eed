"""Programs of an environment whose version lets other users of the node in: none of them passes the
smoke test or starts, and `portal doctor` names it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from portal_session.programs.program import Program
from test_doctor import asked

from portal.doctor.checks import environments
from portal.doctor.finding import Level
from portal.images.jobs import smoke
from portal.launch.kinds import KINDS, program_kinds
from portal.launch.kinds.program import MARIMO, ProgramKind, program_kind
from portal.models.catalog.catalog import Verdict
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import ImageJob, Work
from portal.store import Store

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
# In place of marimo: it says that it was started.
_MAIN = "import pathlib, sys; pathlib.Path('started').write_text(' '.join(sys.argv)); print('runs')"


def with_marimo(folder: Path, version: str) -> Path:
    """Install a package of that name and version; return the folder that has it."""
    about = folder / "marimo-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: marimo\nVersion: {version}\n")
    (folder / "marimo").mkdir()
    (folder / "marimo/__main__.py").write_text(_MAIN)
    return folder


def started(tmp_path: Path, version: str) -> tuple[str, bool]:
    """Start marimo as a session does; return what its log says, and whether it ran."""
    packages = with_marimo(tmp_path / "packages", version)
    definition = json.loads(program_kind(MARIMO)().variables()["PORTAL_PROGRAM"])
    environ = {**os.environ, "PYTHONPATH": f"{packages}:{KERNELS}"}
    program = Program(definition, tmp_path, "/user/ada/portal/program/", str(tmp_path), environ)
    program.start()
    assert program._process is not None
    program._process.wait(30)
    return program.output(), (tmp_path / "started").exists()


@pytest.mark.parametrize("version", ["0.20.4", "0.9.34", "0.23.0rc1", "0.22.5", "new"])
def test_an_unsafe_version_does_not_start(tmp_path: Path, version: str) -> None:
    said, ran = started(tmp_path, version)
    assert not ran
    assert f"marimo {version} is not safe on a shared node (CVE-2026-39987" in said
    assert "needs marimo 0.23.0 or newer" in said


@pytest.mark.parametrize("version", ["0.23.0", "0.25.2", "1.0"])
def test_a_safe_version_starts(tmp_path: Path, version: str) -> None:
    said, ran = started(tmp_path, version)
    assert ran and said == "runs\n"


def test_an_unsafe_version_in_the_user_s_own_packages_does_not_start(tmp_path: Path) -> None:
    """What counts is the package that would run, not the environment's."""
    own = with_marimo(tmp_path / "own", "0.20.4")
    with_marimo(tmp_path / "packages", "0.25.2")
    definition = json.loads(program_kind(MARIMO)().variables()["PORTAL_PROGRAM"])
    environ = {**os.environ, "PYTHONPATH": f"{own}:{tmp_path / 'packages'}:{KERNELS}"}
    program = Program(definition, tmp_path, "/", str(tmp_path), environ)
    program.start()
    assert program._process is not None and program._process.wait(30)
    assert "marimo 0.20.4 is not safe" in program.output()
    assert not (tmp_path / "started").exists()


def test_it_passes_no_smoke_test(tmp_path: Path) -> None:
    """The sentence of the check fails the test; the sessions that really start are in
    tests/integration/images."""
    environment = Environment(name="v", title="V", kind="venv", path="/v", opens=("marimo", "x"))
    job = ImageJob(work=Work.TEST, environment=environment, nonce="n", apptainer=sys.executable)
    _, env = smoke._command(job, environment, str(tmp_path / "home"))
    told = env["APPTAINERENV_PORTAL_PROGRAMS"]
    assert [guard[4] for guard in json.loads(told)] == ["marimo"]
    code = "from portal_session.check.__main__ import _programs; print(_programs())"
    said = []
    for version in ("0.20.4", "0.25.2"):
        packages = with_marimo(tmp_path / version, version)
        environ = {
            **os.environ,
            "PORTAL_PROGRAMS": told,
            "PYTHONPATH": f"{packages}:{KERNELS}",
        }
        done = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
        )
        said.append(done.stdout)
    assert "marimo 0.20.4 is not safe" in said[0] and said[1] == "[]\n"


async def test_the_doctor_names_it(tmp_path: Path) -> None:
    packages = with_marimo(tmp_path / "venv/lib/python3.11/site-packages", "0.20.4")
    files = tmp_path / "environments"
    files.mkdir()
    text = f"name: v\ntitle: V\nkind: venv\npath: {tmp_path}/venv\nopens: [marimo]\n"
    (files / "v.yaml").write_text(text)
    config = (
        f"c.EnvironmentCatalog.directory = {str(files)!r}\n"
        f"c.Store.url = 'sqlite:///{tmp_path}/none.sqlite'\n"
    )
    finding = await asked(environments.programs, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert "'v' has marimo 0.20.4" in finding.found and "CVE-2026-39987" in finding.found
    assert "marimo 0.23.0 or newer" in finding.mend
    metadata = packages / "marimo-0.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("0.20.4", "0.25.2"))
    assert (await asked(environments.programs, tmp_path, config)).level is Level.OK


async def test_the_doctor_names_it_in_a_container_by_its_test(tmp_path: Path) -> None:
    files = tmp_path / "environments"
    files.mkdir()
    text = f"name: v\ntitle: V\nkind: container\nimage: {tmp_path}/v.sif\nopens: [marimo]\n"
    (files / "v.yaml").write_text(text)
    url = f"sqlite:///{tmp_path}/portal.sqlite"
    config = f"c.EnvironmentCatalog.directory = {str(files)!r}\nc.Store.url = {url!r}\n"
    assert (await asked(environments.programs, tmp_path, config)).level is Level.SKIPPED
    store = Store(url=url, log=logging.getLogger("store"))
    await store.upgrade()
    fingerprint = Environment.model_validate(yaml.safe_load(text)).fingerprint
    for version, level in (("0.20.4", Level.FAILURE), ("0.25.2", Level.OK)):
        facts = {"packages": ["numpy==2.4", f"Marimo=={version}"]}
        verdict = Verdict(
            fingerprint=fingerprint, gpu_type="", passed=True, message="", at=1, facts=facts
        )
        await store.tests.save_verdict(verdict)
        assert (await asked(environments.programs, tmp_path, config)).level is level
    await store.close()


def test_every_program_names_its_least_version() -> None:
    """A program to come cannot be added without it."""
    assert {kind for kind in KINDS if issubclass(kind, ProgramKind)} == set(
        program_kinds().values()
    )
    for kind in program_kinds().values():
        program = kind.definition
        assert program.needs and program.least and program.reason
