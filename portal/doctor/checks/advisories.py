"""Check of known holes (portal/doctor/advisories.toml) in what this machine has installed, and of
Slurm's metrics, which slurmctld tells everybody."""

from __future__ import annotations

import asyncio
import datetime
import tomllib
from collections.abc import AsyncIterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, NamedTuple

import aiohttp
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator

from portal.models import Frozen
from portal.models.catalog.environment import EnvironmentKind

from ..command import ask
from ..finding import Result, check, ok, skipped, warning, worst
from ..site import Site
from .slurm import settings

FILE = Path(__file__).parents[1] / "advisories.toml"
_OLD = datetime.timedelta(days=365)
_METRICS = 3.0  # seconds for slurmctld's answer
# Programs of the system: the command that tells its version, and the packages that it may be from.
_PROGRAMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "slurm": (("sinfo", "--version"), ("slurm-client", "slurm-wlm-client", "slurm")),
    "munge": (("munge", "--version"), ("munge",)),
    "apptainer": (("apptainer", "--version"), ("apptainer",)),
}


def _ranges(ranges: tuple[str, ...]) -> tuple[str, ...]:
    for text in ranges:
        try:
            SpecifierSet(text)
        except InvalidSpecifier:
            raise ValueError(f"'{text}' is no range of versions") from None
    return ranges


class Advisory(Frozen):
    """Known hole of a product; see the file."""

    id: str
    product: str
    affected: Annotated[tuple[str, ...], AfterValidator(_ranges)]
    fixed: str
    summary: str
    link: str

    def affects(self, version: Version) -> bool:
        """Return True if a version of the project itself has the hole."""
        return any(SpecifierSet(text).contains(version, True) for text in self.affected)


class Advisories(Frozen):
    """The whole file; ``dated`` is when it was last compared with the projects' pages."""

    dated: datetime.date
    advisory: tuple[Advisory, ...]


class Installed(NamedTuple):
    """Version of a product in a ``place``; ``log``: changes that a distribution names for its
    package, "" if it is none or has no log."""

    product: str
    version: Version
    place: str
    packaged: bool = False
    log: str = ""


def read(path: Path = FILE) -> Advisories:
    """Return the advisories. Raises OSError, ValueError."""
    return Advisories.model_validate(tomllib.loads(path.read_text()))


@check("advisories", "What is installed has no known holes")
async def advisories(site: Site) -> Result:
    known = await asyncio.to_thread(read)
    await site.catalog.load()
    installed = [program async for program in _programs(site)]
    installed += await asyncio.to_thread(_packages, site, {item.product for item in known.advisory})
    return result_of(known, installed, datetime.datetime.now(datetime.UTC).date())


def result_of(known: Advisories, installed: list[Installed], today: datetime.date) -> Result:
    """Return what the advisories say about what is installed."""
    results = [
        ok(f"{len(known.advisory)} advisories of {known.dated} for {len(installed)} programs")
    ]
    if today - known.dated > _OLD:
        results.append(
            warning(
                f"the list of advisories is of {known.dated}",
                "Upgrade the portal, which brings a newer program, or see the projects' own pages.",
            )
        )
    for program in installed:
        for item in known.advisory:
            if (
                item.product == program.product
                and item.affects(program.version)
                and item.id not in program.log
            ):
                results.append(_affected(item, program))
    return worst(results)


def _affected(item: Advisory, program: Installed) -> Result:
    unless = ", unless your distribution has patched it" if program.packaged else ""
    return warning(
        f"{program.product} {program.version} ({program.place}) has a known hole{unless}: "
        f"{item.summary} ({item.id})",
        f"{program.product}: install {item.fixed} or a patched package: {item.link}",
    )


async def _programs(site: Site) -> AsyncIterator[Installed]:
    for product, (argv, packages) in _PROGRAMS.items():
        command = list(argv)
        if product == "slurm":
            folder = site.setting(type(site.runner), "bin_dir")
            command[0] = f"{folder}/{command[0]}" if folder else command[0]
        elif product == "apptainer":
            command[0] = str(site.setting(site.spawner, "apptainer") or command[0])
        said = await ask(command)
        # "slurm 22.05.8", "munge-0.5.15 (2022-06-22)", "apptainer version 1.4.5-2"
        words = said.words.replace("-", " ").split()
        versions = [version for word in words if (version := _version(word)) is not None]
        if said.status == 0 and versions:
            packaged, log = await _distribution(packages)
            yield Installed(product, versions[0], command[0], packaged, log)


async def _distribution(packages: tuple[str, ...]) -> tuple[bool, str]:
    """Return whether the program may come from a distribution's package, and that package's log of
    changes, which names what it repairs."""
    for package in packages:
        if (await ask(["dpkg-query", "-W", package])).status == 0:
            place = f"/usr/share/doc/{package}/changelog.Debian.gz"
            return True, (await ask(["zcat", place])).stdout
        if (await ask(["rpm", "-q", package])).status == 0:
            return True, (await ask(["rpm", "-q", "--changelog", package])).stdout
    return False, ""


def _packages(site: Site, products: set[str]) -> list[Installed]:
    """Return the Python packages in the portal's environment and in environments that are virtual
    ones; images are not looked into."""
    places = {"the portal's environment": metadata.distributions()}
    for environment in site.catalog.environments.values():
        if environment.kind is EnvironmentKind.VENV:
            folders = [
                str(path)
                for path in Path(environment.path or "/none").glob("lib/python*/site-packages")
            ]
            places[f"environment {environment.name}"] = metadata.distributions(path=folders)
    return [
        Installed(name, version, place)
        for place, found in places.items()
        for distribution in found
        if (name := str(distribution.metadata["Name"]).lower().replace("_", "-")) in products
        and (version := _version(distribution.version)) is not None
    ]


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


@check("slurm-metrics", "Slurm's metrics are not open to everybody")
async def metrics(site: Site) -> Result:
    config = await settings(site)
    hosts = [
        value.partition("(")[0]
        for key, value in config.items()
        if key.startswith("SlurmctldHost") and value
    ]
    ports = config.get("SlurmctldPort", "6817").partition("-")[0]
    if not hosts or not ports.isdigit():
        return skipped("slurm.conf names no SlurmctldHost")
    address = site_address(config, hosts[0])
    timeout = aiohttp.ClientTimeout(total=_METRICS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://{address}:{ports}/metrics", allow_redirects=False) as answer,
        ):
            is_open = answer.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        is_open = False  # older versions speak no HTTP there
    if not is_open:
        return ok(f"slurmctld at {address}:{ports} tells none")
    return warning(
        f"http://{address}:{ports}/metrics answers without a login: everybody who reaches it sees "
        "the jobs of all users and accounts",
        "Remove MetricsType from slurm.conf, or set PrivateData there, with which Slurm has no "
        "metrics; or let only your Prometheus reach this port besides the cluster's own machines "
        "(a firewall). See https://slurm.schedmd.com/metrics.html.",
    )


def site_address(config: dict[str, str], host: str) -> str:
    """Return the address of slurmctld that slurm.conf names beside its host, "name(address)"."""
    value = next((value for value in config.values() if value.startswith(f"{host}(")), "")
    return value.partition("(")[2].rstrip(")") or host
