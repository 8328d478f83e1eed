"""The extension of JupyterLab as it is built into portal-session's wheel."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from test_session_package import KERNELS, installed  # noqa: F401  a fixture

from portal.models import situation
from portal.models.catalog.environment import Kernel
from portal.models.course import live
from portal.models.session import idle, move
from portal.work.kernel.endpoints import KernelEnvironment
from portal.work.kernel.states import JobKernelState
from portal.work.run.endpoints.choices import RunChoices, RunEnvironment

NAME = "@data-scientist-portal/session"
SOURCE = KERNELS / "labextension"


@pytest.fixture
def extension(installed: Path) -> Path:  # noqa: F811
    """Its directory in an environment where portal-session was installed."""
    return installed.parents[1] / "share/jupyter/labextensions" / NAME


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module hatch_build.py."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", KERNELS / "hatch_build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_jupyterlab_finds_it_and_it_is_on(installed: Path, tmp_path: Path) -> None:  # noqa: F811
    done = subprocess.run(
        [installed, "-m", "jupyterlab.labextensions", "list"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said = re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr)
    (line,) = [line for line in said.splitlines() if NAME in line]
    assert re.search(r"v0\.1\.0 +enabled +OK \(python, portal-session\)", line), said


def test_it_is_small_and_says_nothing_of_where_it_was_built(extension: Path) -> None:
    files = [path for path in extension.rglob("*") if path.is_file()]
    words = (
        str(KERNELS),
        str(Path.home()),
        "node_modules",
        "labextension/work",
    )
    for path in files:
        assert path.suffix != ".map"
        text = path.read_text()
        assert not re.search("sourceMappingURL=(?!data:)", text), path.name
        assert [word for word in words if word in text] == [], path.name
        assert not re.search(r"https?://(?!www\.w3\.org/)[\w.-]*(registry|npm)", text), path.name
    scripts = {path.name: path.stat().st_size for path in files if path.suffix == ".js"}
    assert sum(scripts.values()) < 200_000, scripts
    # What Lab fetches before it shows anything.
    built = json.loads((extension / "package.json").read_text())["jupyterlab"]["_build"]
    assert (extension / built["load"]).stat().st_size < 30_000


def test_a_node_that_is_too_old_is_helped(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Debian 12 has Node.js 18, with which JupyterLab's builder ends with ERR_REQUIRE_ESM."""
    real = shutil.which("node")
    assert real
    old = tmp_path / "old/node"
    old.parent.mkdir()
    old.write_text(f"""#!/bin/sh
[ "$1" = --version ] && echo v18.20.4 || exec {real} "$@"
""")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    path = hook.with_node(tmp_path / "cache")
    said = subprocess.run(
        ["node", "--version"], env={"PATH": path}, capture_output=True, text=True, check=True
    ).stdout
    assert tuple(int(part) for part in said.strip().lstrip("v").split(".")[:2]) >= (20, 19)
    assert hook.with_node(tmp_path / "cache") == path  # the second time nothing is fetched
    monkeypatch.setattr(hook.platform, "machine", lambda: "riscv64")
    with pytest.raises(SystemExit, match=r"20\.19 or newer; this machine has v18\.20\.4"):
        hook.with_node(tmp_path / "cache")


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    assert len(lock["packages"]) > 100
    assert [name for name, one in lock["packages"].items() if "resolved" in one] == []
    assert all("integrity" in one for name, one in lock["packages"].items() if name)


def test_one_version() -> None:
    from portal_session import __version__

    assert json.loads((SOURCE / "package.json").read_text())["version"] == __version__


@pytest.mark.parametrize(
    "model",
    [
        *(situation.Situation, situation.ExtendOffer, situation.GpuNow, situation.Message),
        situation.ProjectSituation,
        *(idle.IdleState, move.Move, live.CourseSituation, live.CourseMessage, live.Help),
        *(Kernel, KernelEnvironment, JobKernelState, RunChoices, RunEnvironment),
    ],
)
def test_what_it_reads_is_what_the_service_says(model: type[BaseModel]) -> None:
    name = model.__name__
    modules = ("situations.ts", "course.ts", "job-kernel-states.ts", "run-offer.ts")
    text = "".join((SOURCE / "src" / module).read_text() for module in modules)
    # A module may add fields to another's interface.
    found = re.findall(rf"interface {name} \{{(.*?)\n *\}}", text, re.DOTALL)
    assert found
    fields = dict(re.findall(r"^ +(\w+): (.*);$", "".join(found), re.MULTILINE))
    assert set(fields) <= set(model.model_fields)
    for field, kind in fields.items():
        may_be_null = type(None) in getattr(model.model_fields[field].annotation, "__args__", ())
        assert ("null" in kind) == may_be_null, f"{name}.{field}"


def test_an_unchanged_extension_is_not_built_again(hook, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(hook, "run", lambda *_: pytest.fail("it is built"))
    (tmp_path / f"built-{hook.digest(SOURCE)}").mkdir()
    assert hook.build(SOURCE, tmp_path).name == f"built-{hook.digest(SOURCE)}"


def test_a_change_of_the_source_is_another_build(hook, tmp_path) -> None:
    (tmp_path / "src").mkdir()
    for name in (
        "package.json",
        "package-lock.json",
        ".npmrc",
        "tsconfig.json",
        "rspack.config.js",
        "src/index.ts",
    ):
        (tmp_path / name).write_text("1")
    before = hook.digest(tmp_path)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/x.js").write_text("1")
    assert hook.digest(tmp_path) == before
    (tmp_path / "src/index.ts").write_text("2")
    assert hook.digest(tmp_path) != before


def test_without_node_there_is_a_sentence(hook, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"node and npm cannot be found\. Install Node"):
        hook.build(SOURCE, tmp_path / "cache")


def test_a_failed_build_says_what_npm_said(hook, tmp_path, monkeypatch) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho the registry is away; exit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SystemExit, match=r"get the packages .* from npm: the registry is away"):
        hook.build(SOURCE, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("built-*"))


def test_the_demo_notices_a_change(tmp_path, monkeypatch) -> None:
    from portal.demo.environments import python_packages

    source = tmp_path / "kernels/labextension"
    (source / "src").mkdir(parents=True)
    (source / "src/index.ts").write_text("1")
    where = python_packages.data_path
    monkeypatch.setattr(
        python_packages,
        "data_path",
        lambda name: tmp_path / name if name == "kernels" else where(name),
    )
    before = python_packages.session_key()
    for made in ("node_modules/a", "lib", "out/static"):
        (source / made).mkdir(parents=True)
        (source / made / "x.js").write_text("1")
    assert python_packages.session_key() == before
    (source / "src/index.ts").write_text("2")
    assert python_packages.session_key() != before


def test_a_cache_that_cannot_be_written_to_is_named(hook, tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"file/cache, which cannot be written to .*PORTAL_CACHE"):
        hook.build(SOURCE, tmp_path / "file/cache")
