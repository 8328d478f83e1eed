"""A stolen Hub account names a configuration of Slurm of its own, whose plugins would be code."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_FILES = {
    "empty": "",
    "no such plugin": "ClusterName=evil\nSlurmctldHost=localhost\nAuthType=auth/evil\n",
    "a plugin folder": "ClusterName=evil\nSlurmctldHost=localhost\nPluginDir={here}\n",
    "a stack of plugins": "Include /etc/slurm/slurm.conf\nPlugStackConfig={here}/plugstack.conf\n",
}


@pytest.fixture
def here(demo: Any) -> Iterator[Path]:
    """A folder where everyone can write and read."""
    if not demo.people:
        pytest.skip("the one-account form has no sudo")
    folder = demo.home.scratch / "slurm-conf"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    yield folder
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def _submit(demo: Any, conf: Path | str) -> subprocess.CompletedProcess[str]:
    words = ["sudo", "-n", "-u", "ada", "/usr/bin/sbatch", "--parsable", "--hold", "--time=1"]
    options = [f"--chdir={demo.words['homes']}/ada", "--output=/dev/null", "--wrap=true"]
    env = {"SLURM_CONF": str(conf)}
    done: subprocess.CompletedProcess[str] = demo.run(
        [*words, *options], user="portal", env=env, check=False
    )
    if done.returncode == 0:
        demo.run(["scancel", done.stdout.strip()])
    return done


@pytest.mark.parametrize("text", _FILES.values(), ids=_FILES.keys())
def test_the_callers_slurm_conf_is_not_read(demo: Any, here: Path, text: str) -> None:
    conf = here / "slurm.conf"
    conf.write_text(text.format(here=here))
    # sbatch would end here if it read this.
    (here / "plugstack.conf").write_text(f"required {here}/evil.so\n")
    done = _submit(demo, conf)
    assert done.returncode == 0, done.stderr
    assert "evil" not in done.stderr and str(here) not in done.stderr


@pytest.mark.parametrize("conf", ["/nonexistent", "", "/dev/zero", "relative/slurm.conf"])
def test_no_path_of_the_callers_counts(demo: Any, conf: str) -> None:
    if not demo.people:
        pytest.skip("the one-account form has no sudo")
    assert _submit(demo, conf).returncode == 0
