"""deploy/install.sh: what it says where it cannot install, and that it does nothing twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, a_home


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what install.sh reads, that the test may change."""
    for name in ("deploy", "portal", "spawners", "templates", "static", "kernels"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "package.json", "package-lock.json", ".npmrc"):
        shutil.copy(ROOT / name, tmp_path / name)
    for part in (tmp_path, *tmp_path.parents):
        if part.stat().st_uid == os.geteuid() and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o055)
    return tmp_path


def install(
    source: Path, *words: str, home: Path, prefix: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Run install.sh of ``source``."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PORTAL_"))}
    return subprocess.run(
        [*prefix, "sh", str(source / "deploy/install.sh"), *words],
        env={**clean, "PORTAL_HOME": str(home), **env},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_without_the_right_to_install(source: Path) -> None:
    """One sentence with the packages and the command for an administrator."""
    packages = source / "deploy/packages-run.txt"
    packages.write_text(packages.read_text() + "no-such-package  no-such-command  a test\n")
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with a_home() as home:
        said = install(source, "run", home=home, prefix=prefix)
        assert said.returncode != 0
        assert len(said.stderr.splitlines()) == 1
        assert "no-such-package" in said.stderr
        assert f"sudo sh {source}/deploy/install.sh packages run" in said.stderr
        assert list(home.iterdir()) == []


def test_packages_that_not_every_suite_has(source: Path, tmp_path: Path) -> None:
    """One with a `?` is asked for where apt offers it, and not missed elsewhere."""
    packages = source / "deploy/packages-test.txt"
    line = "{}? no-such-command a test\n"
    packages.write_text(line.format("in-this-suite") + line.format("not-in-it"))
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    answers = {
        "apt-cache": 'case $* in *in-this-suite) echo "  Candidate: 1.2-3" ;; dumpavail) echo x ;; '
        '*) echo "  Candidate: (none)" ;; esac',
        "id": "echo 65534",
    }
    for name, answer in answers.items():
        (fakes / name).write_text(f"#!/bin/sh\n{answer}\n")
        (fakes / name).chmod(0o755)
    path = f"{fakes}:{os.environ['PATH']}"
    said = install(source, "packages", "test", home=tmp_path, PATH=path)
    assert said.returncode == 1
    assert "these system packages are missing: in-this-suite -" in said.stderr
    packages.write_text(line.format("not-in-it"))
    said = install(source, "packages", "test", home=tmp_path, PATH=path)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_two_at_the_same_time(source: Path, tmp_path: Path) -> None:
    """`make run` and `make test` begin together on a bare machine: one apt at a time, and who
    waited installs nothing again."""
    if os.geteuid() != 0:
        pytest.skip("only root installs packages")
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    answers = {
        "apt-get": f"""mkdir {tmp_path}/lock || {{ echo "E: no lock"; exit 100; }}
            sleep 1; echo "$@" >> {tmp_path}/installed
            ln -sf /bin/true {fakes}/a-new-command; rmdir {tmp_path}/lock""",
        "dpkg-query": "exit 0",
    }
    for name, answer in answers.items():
        (fakes / name).write_text(f"#!/bin/sh\n{answer}\n")
        (fakes / name).chmod(0o755)
    for name in ("run", "test"):
        packages = source / f"deploy/packages-{name}.txt"
        packages.write_text("a-package a-new-command a test\n")
    env = {**os.environ, "PATH": f"{fakes}:{os.environ['PATH']}"}
    both = [
        subprocess.Popen(
            ["sh", str(source / "deploy/install.sh"), "packages", what],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for what in ("run", "test")
    ]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert len((tmp_path / "installed").read_text().splitlines()) == 1
    assert "waiting for another installation" in "".join(said)


@pytest.mark.parametrize("what", ["pip", "npm"])
def test_without_a_network(source: Path, what: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can take the network away")
    vendor = source / "static/vendor"
    if what == "npm":
        shutil.rmtree(vendor, ignore_errors=True)
    elif not (vendor / ".from").exists():
        pytest.skip("what the pages take from npm was not fetched")
    with a_home() as home:
        said = install(
            source,
            "run",
            home=home,
            prefix=("unshare", "--net"),
            PIP_CONFIG_FILE="/dev/null",
            PIP_RETRIES="1",
            PIP_DEFAULT_TIMEOUT="2",
            npm_config_cache=str(source / "npm-cache"),
        )
        assert said.returncode != 0
        assert len(said.stderr.splitlines()) == 1 and "no network" in said.stderr
        assert f"/{what}.log" in said.stderr


def test_a_home_that_cannot_be_made(source: Path) -> None:
    said = install(source, "run", home=Path("/proc/no/such"))
    assert said.returncode != 0
    assert len(said.stderr.splitlines()) == 1 and "PORTAL_HOME" in said.stderr


@pytest.mark.parametrize("name", ["a b", "a,b", "a%b", "a$b"])
def test_a_home_that_slurm_would_misread(source: Path, tmp_path: Path, name: str) -> None:
    said = install(source, "run", home=tmp_path / name)
    assert said.returncode != 0 and not (tmp_path / name).exists()
    assert len(said.stderr.splitlines()) == 1 and "would misread" in said.stderr


def test_nothing_is_done_twice() -> None:
    """In the environment of this run, which `make test` has just brought up to date."""
    home = Path(sys.prefix).parent
    if not (Path(sys.prefix) / ".portal/needs-test").exists():
        pytest.skip("the tests do not run in an environment that install.sh made")
    cache = os.environ.get("PORTAL_CACHE", str(home / "cache"))
    first = install(ROOT, "test", home=home, PORTAL_CACHE=cache)
    assert first.returncode == 0, first.stderr
    state = Path(sys.prefix) / ".portal" / "code"
    before = state.stat().st_mtime_ns
    again = install(ROOT, "test", home=home, PORTAL_CACHE=cache)
    assert again.returncode == 0 and again.stdout + again.stderr == ""
    assert state.stat().st_mtime_ns == before
