"""Release: sdists and wheels of both distributions with what they take from npm, bills of
materials, and checksums; the same bytes from the same commit.

    make release    build it into dist/

Sources: https://reproducible-builds.org/specs/source-date-epoch/, https://cyclonedx.org.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
# Distribution, its folder, and its package with `__version__`.
DISTRIBUTIONS = {
    "data-scientist-portal": ("", "portal"),
    "portal-session": ("kernels", "portal_session"),
}
EXTRAS = ("oidc", "proxy")  # for sites
BILLS = {"pages": "", "proxy": "deploy/proxy", "jupyterlab": "kernels/labextension"}  # of npm
_CHANGING = ("serialNumber", "timestamp")  # in a bill


def main() -> None:
    """Build the release of the commit that is checked out."""
    run_to_the_end(build)


def run_to_the_end(build: Callable[[Path], None]) -> None:
    """Build into dist/ and list what is there; a program that fails ends it with a sentence."""
    out = ROOT / "dist"
    try:
        build(out)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()[-1:]
        sys.exit(f"release: {' '.join(map(str, error.cmd[:4]))} failed. {' '.join(words)}")
    for path in sorted(out.iterdir()):
        print(f"  {path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")


def build(out: Path) -> None:
    """Build the release of the commit into the folder ``out``, which is made anew. Raises
    SystemExit with a sentence, CalledProcessError."""
    if output("git", "status", "--porcelain"):
        sys.exit("release: there are changes that no commit has. Commit them first.")
    with tempfile.TemporaryDirectory(prefix="portal-release-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        archive = Path(folder) / "source.tar"
        output("git", "archive", f"--output={archive}", "HEAD")
        output("tar", "-xf", str(archive), "-C", str(source), cwd=source)
        version = _version(source)
        variables = {"SOURCE_DATE_EPOCH": commit_time(), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        output("sh", "deploy/install.sh", "assets", cwd=source, variables=variables)
        made = Path(folder) / "made"
        for where, _ in DISTRIBUTIONS.values():
            argv = [sys.executable, "-m", "hatchling", "build", "-d", str(made)]
            output(*argv, "-t", "sdist", "-t", "wheel", cwd=source / where, variables=variables)
        constraints = made / f"data-scientist-portal-{version}.constraints.txt"
        shutil.copyfile(source / "deploy/constraints.txt", constraints)
        _write_bills(source, made, version)
        write_sums(made)
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(made, out)


def _version(source: Path) -> str:
    """Return the version of all distributions. Raises SystemExit."""
    found = set()
    for where, package in DISTRIBUTIONS.values():
        text = (source / where / package / "__init__.py").read_text(encoding="utf-8")
        found |= {line.split('"')[1] for line in text.splitlines() if "__version__ =" in line}
    if len(found) != 1:
        sys.exit(f"release: the distributions have different versions: {', '.join(sorted(found))}.")
    (version,) = found
    changes = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"\n## [{version}]" not in changes:
        sys.exit(f"release: CHANGELOG.md has no section [{version}].")
    return version


def _write_bills(source: Path, made: Path, version: str) -> None:
    """Write bills of materials (CycloneDX): of Python's packages in their tested versions, and of
    those that npm brought."""
    with tempfile.TemporaryDirectory(prefix="portal-bill-") as folder:
        names = Path(folder) / "requirements.txt"
        names.write_text("".join(f"{line}\n" for line in _python_packages(source, made)), "utf-8")
        argv = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible"]
        bill = json.loads(output(*argv, str(names), cwd=source))
    _write_bill(made / f"data-scientist-portal-{version}.python.cdx.json", bill)
    for name, where in BILLS.items():
        package = json.loads((source / where / "package.json").read_text(encoding="utf-8"))
        package["version"] = version
        (source / where / "package.json").write_text(json.dumps(package), encoding="utf-8")
        argv = ["npm", "sbom", "--sbom-format=cyclonedx", "--package-lock-only", "--omit=dev"]
        bill = json.loads(output(*argv, cwd=source / where))
        _write_bill(made / f"data-scientist-portal-{version}.{name}.cdx.json", bill)


def _python_packages(source: Path, made: Path) -> list[str]:
    """Return what the wheel brings, with all that is offered to sites, in the tested versions:
    ["name==1.2", …]. Raises SystemExit."""
    tested = {}
    for line in (source / "deploy/constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            tested[canonicalize_name(line.partition("==")[0])] = line
    (wheel,) = made.glob("data_scientist_portal-*.whl")
    metadata = zipfile.Path(wheel, f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/")
    wanted = [(PathDistribution(metadata), frozenset({"", *EXTRAS}))]  # type: ignore[arg-type]
    found: dict[str, set[str]] = {}
    while wanted:
        package, extras = wanted.pop()
        for requirement in map(Requirement, package.requires or ()):
            marker, name = requirement.marker, canonicalize_name(requirement.name)
            if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
                continue
            asked = {"", *requirement.extras} - found.setdefault(name, set())
            found[name] |= asked
            if asked:
                wanted.append((distribution(name), frozenset(asked)))
    if unknown := sorted({*found} - {*tested}):
        sys.exit(f"release: deploy/constraints.txt has no version of {', '.join(unknown)}.")
    return [tested[name] for name in sorted(found)]


def _write_bill(path: Path, bill: dict[str, Any]) -> None:
    for part in (bill, bill.get("metadata", {})):
        for name in _CHANGING:
            part.pop(name, None)
    path.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def write_sums(made: Path) -> None:
    """Write the sums of all files into SHA256SUMS."""
    files = sorted(path for path in made.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (made / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def commit_time() -> str:
    """Return when the commit was made: the time of all that is built."""
    return output("git", "log", "-1", "--format=%ct")


def output(*argv: str, cwd: Path = ROOT, variables: Mapping[str, str] | None = None) -> str:
    """Return the output of a program. Raises CalledProcessError."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=True,
        umask=0o022,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
