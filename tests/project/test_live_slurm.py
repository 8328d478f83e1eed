"""Roots of other Debian suites (tests/support/containers/debian_root.py), tried on one that has
nothing but a shell; the stage that uses them skips only what the machine's mirrors do not have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import debian_root
import pytest

from tests import live_slurm

if os.geteuid():
    pytest.skip("only root can enter another system's root", allow_module_level=True)


@pytest.fixture(params=["/var/tmp", "/tmp", "/srv"])
def cache(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a cache in a folder that a root has too, with a root in it."""
    with tempfile.TemporaryDirectory(prefix="pt-cache-", dir=request.param) as name:
        folder = Path(name)
        (folder / "node").mkdir()
        (folder / "node/proxy").write_text("of this machine")
        root = folder / "slurm-roots/small"
        for place in ("bin", "dev", "sys", "proc", "tmp", "var/tmp", debian_root.INSIDE[1:]):
            (root / place).mkdir(parents=True)
        for program in ("sh", "umount", "cat"):
            path = str(shutil.which(program))
            shutil.copy(path, root / "bin" / program)
            said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
            for library in re.findall(r"/\S+", said):
                place = root / library[1:]
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, place)
        yield folder


def test_a_cache_may_be_anywhere(cache: Path) -> None:
    """Also where a root has temporary folders of its own; what a root keeps there stays."""
    root = cache / "slurm-roots/small"
    outcomes = cache / "outcomes"
    outcomes.mkdir()
    for script in (
        f'[ "$(cat {cache}/node/proxy)" = "of this machine" ] && : >{cache}/kept',
        f"[ -e {cache}/kept ] && [ ! -e /var/tmp/kept ] && : >{debian_root.OUTCOMES}/written",
    ):
        assert debian_root.enter(root, cache, ["sh", "-c", script], outcomes=outcomes) == 0
    assert (outcomes / "written").exists() and not (cache / "kept").exists()


@pytest.mark.parametrize(
    ("error", "status"), [(debian_root.NoRoot("none"), 0), (debian_root.RootBroken("mount"), 1)]
)
def test_a_skip_by_a_fault_of_ours_is_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: object) -> Path:
        raise error

    monkeypatch.setattr(live_slurm.debian_root, "make", fail)
    monkeypatch.setattr(live_slurm.runs, "end_on_signals", lambda: None)
    outcome = tmp_path / "outcome.json"
    monkeypatch.setattr("sys.argv", ["live_slurm", "24.11", f"--outcome={outcome}"])
    assert live_slurm.main() == status
    assert outcome.exists() == (status == 0)  # without one, the part is red in any case


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("ERROR: No matching distribution found for mlflow", debian_root.NoRoot),
        ("mount: /var/tmp/x: mount point does not exist.", debian_root.RootBroken),
    ],
)
def test_only_pip_says_that_packages_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[Exception]
) -> None:
    def enter(*_: object, output: object = None, **__: object) -> int:
        print(said, file=output)  # type: ignore[call-overload]
        return 1

    monkeypatch.setattr(debian_root, "enter", enter)
    with pytest.raises(error, match=said):
        debian_root.python(tmp_path / "root", tmp_path)
