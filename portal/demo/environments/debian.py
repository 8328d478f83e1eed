"""Packages of Debian and Ubuntu, fetched from this machine's mirror without installing them.

apt runs with its own lists, sources and cache, as any user, and does not touch the machine's
package database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .making import run

_KEYRINGS = {
    "debian": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "ubuntu": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
}


def distribution_mirror() -> str:
    """Return the URL of the archive of this machine's release, such as ``http://…/debian/``.

    It is the one configured for apt, whether or not package lists were fetched; "" if there is
    none.
    """
    codename = os_release().get("VERSION_CODENAME", "")
    releases = {codename, "stable", "oldstable", "testing", "unstable", "sid"}
    shape = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
    targets = run(
        ["apt-get", "indextargets", "--format", shape, "Created-By: Packages"], "read apt's sources"
    )
    for line in targets.splitlines():
        uri, release, component, origin = [*line.split("|"), "", "", ""][:4]
        if release in releases and component == "main" and origin in ("Debian", "Ubuntu"):
            return uri
    # Before the first `apt-get update` apt lists no targets, but prints what it would fetch. A
    # third party's repository may use the same release names, but not that of the updates.
    sources = run(["apt-get", "--print-uris", "update"], "read apt's sources")
    archives = re.findall(r"^'(\S+/)dists/([^/']+)/InRelease'", sources, re.MULTILINE)
    own = [uri for uri, release in archives if release in releases]
    updated = {uri for uri, release in archives if release == f"{codename}-updates"}
    return next((uri for uri in own if uri in updated), own[0] if own else "")


def fetch_packages(
    work: Path, suite: str, names: Sequence[str], *, with_dependencies: bool
) -> list[Path]:
    """Fetch the newest packages ``names`` of ``suite`` and return the files, below ``work``.

    ``with_dependencies`` adds all dependencies, as if nothing were installed. Raises
    ConfigurationError if the mirror does not answer or lacks a package.
    """
    mirror = distribution_mirror()
    system = os_release().get("ID", "")
    for part in ("lists/partial", "archives/partial", "none"):
        (work / part).mkdir(parents=True)
    (work / "status").touch()
    keyring = _KEYRINGS.get(system, "")
    signed = f"[signed-by={keyring}] " if keyring and Path(keyring).exists() else ""
    components = "main universe" if system == "ubuntu" else "main"
    (work / "sources.list").write_text(f"deb {signed}{mirror} {suite} {components}\n")
    options = [
        f"Dir::State={work}",
        f"Dir::State::lists={work}/lists",
        f"Dir::State::status={work}/status",
        f"Dir::Cache={work}",
        f"Dir::Cache::archives={work}/archives",
        f"Dir::Log={work}/none",
        f"Dir::Etc::sourcelist={work}/sources.list",
        f"Dir::Etc::sourceparts={work}/none",
        f"Dir::Etc::preferences={work}/none/preferences",
        f"Dir::Etc::preferencesparts={work}/none",
        # apt's own sandbox account could not write to this private directory.
        "APT::Sandbox::User=root",
        "APT::Install-Recommends=false",
        "Acquire::Languages=none",
        "Acquire::Retries=2",
        # The machine's hooks are for its own package lists.
        "APT::Update::Post-Invoke-Success=",
    ]
    apt: list[str | Path] = ["apt-get", "-q", "-y"]
    for option in options:
        apt += ["-o", option]
    run([*apt, "update"], f"read the package lists of '{suite}' from {mirror}")
    what = f"fetch {names[0]} from {mirror}"
    if with_dependencies:
        run([*apt, "--download-only", "install", *names], what)
    else:
        run([*apt, "download", *names], what, cwd=work / "archives")
    return sorted((work / "archives").glob("*.deb"))


def os_release() -> dict[str, str]:
    """Return /etc/os-release as a dict: ``ID``, ``VERSION_CODENAME``, … (os-release(5))."""
    lines = Path("/etc/os-release").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}
