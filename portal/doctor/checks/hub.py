"""Checks of the Hub itself: its configuration, its account, its packages, its parts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import Requirement

from portal.former_settings import ADVICE

from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site


@check("hub-config", "The Hub's configuration is valid")
async def configuration(site: Site) -> Result:
    if site.trouble:
        return failure(site.trouble, "Fix the file. Checks that depend on it were not reliable.")
    if site.fixed:
        return warning(f"{', '.join(site.fixed)}: fixed now, the value is not used", ADVICE)
    return ok(f"read {site.config_file}")


@check("hub-account", "The Hub does not run as root")
async def account(site: Site) -> Result:
    owners = await asyncio.to_thread(_hub_owners, site)
    advice = (
        "Run the Hub as a separate account without special rights (User=portal in "
        "deploy/systemd/data-scientist-portal.service); deploy/sudoers gives it the rights that it "
        "needs."
    )
    if 0 in owners:
        return failure("the Hub with this configuration runs as root", advice)
    if owners:
        return ok(f"it runs as uid {', '.join(map(str, sorted(owners)))}")
    if site.is_root:
        return warning(
            "no Hub runs here, and this command runs as root, so the account's rights "
            "were not checked",
            "Run this command as the Hub's account: sudo -u portal portal doctor",
        )
    return ok(f"no Hub is running here; this command runs as {site.account}")


def _hub_owners(site: Site) -> set[int]:
    """Return the effective user ids of the running Hubs with this site's configuration file
    (proc(5))."""
    owners = set()
    for process in running_hubs(site):
        with contextlib.suppress(OSError):
            status = (process / "status").read_text().splitlines()
            owners |= {int(line.split()[2]) for line in status if line.startswith("Uid:")}
    return owners


def running_hubs(site: Site) -> Iterator[Path]:
    """Yield /proc/PID of each running Hub with this site's configuration file."""
    yield from hubs_with(site.config_file)


def hubs_with(config_file: Path) -> Iterator[Path]:
    """Yield /proc/PID of each running Hub with this configuration file."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            args = (process / "cmdline").read_text(errors="replace").split("\0")
            names = [word.rpartition("/")[2] for word in args[:3]]
            if "jupyterhub" not in names or not names[0].startswith("python"):
                continue
            if _config_of(args, process) == config_file:
                yield process


def _config_of(args: list[str], process: Path) -> Path | None:
    """Return the configuration file that a Hub's command line names."""
    named = "jupyterhub_config.py"
    for word, following in zip(args, [*args[1:], ""], strict=True):
        if word in ("-f", "--config"):
            named = following
        elif word.startswith(("-f=", "--config=", "--JupyterHub.config_file=")):
            named = word.partition("=")[2]
    path = Path(named)
    return path if path.is_absolute() else process.joinpath("cwd").readlink() / path


@check("packages", "The Python packages have compatible versions")
async def packages(site: Site) -> Result:
    try:
        wanted = metadata.requires("data-scientist-portal") or []
    except metadata.PackageNotFoundError:
        return skipped(
            "the portal is not installed as a package here",
            "Run `portal` from the virtual environment of the Hub.",
        )
    results = []
    for text in wanted:
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        advice = f"Install it into {sys.prefix}: pip install '{requirement}'"
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            results.append(failure(f"{requirement.name} is missing", advice))
            continue
        if requirement.specifier.contains(version, prereleases=True):
            results.append(ok(f"{requirement.name} {version}"))
        else:
            results.append(failure(f"{requirement.name} is {version}", advice))
    return worst(results)


@check("spawner", "The Hub starts sessions with the portal's spawner")
async def spawner(site: Site) -> Result:
    kind = site.spawner
    if "PortalSpawner" not in {parent.__name__ for parent in kind.__mro__}:
        return failure(
            f"c.JupyterHub.spawner_class is {kind.__name__}",
            'Set c.JupyterHub.spawner_class = "portal".',
        )
    results = [ok(kind.__name__)]
    set_up = getattr(kind, "hub_is_set_up", None)  # the portal never imports its spawner
    if set_up is not None and not set_up():
        results.append(
            failure(
                "the configuration does not call set_up_hub(), so the spawner refuses to start "
                "sessions",
                "Add to it: from spawners.hub_setup import set_up_hub; set_up_hub() (or load the "
                "portal's deploy/jupyterhub_config.py, which does this).",
            )
        )
    if any("apply_user_options" in site.config.get(p.__name__, {}) for p in kind.__mro__):
        results.append(
            failure(
                "apply_user_options is replaced, so launch requests are not validated and the "
                "spawner refuses to start sessions",
                "Remove apply_user_options from the configuration.",
            )
        )
    unused = getattr(kind, "unused_settings", None)
    for name, instead in (unused(site.config) if unused else {}).items():
        results.append(warning(f"{name} has no effect", instead))
    if not site.of_hub("tornado_settings").get("slow_spawn_timeout", 10) > 0:
        results.append(
            failure(
                "slow_spawn_timeout is 0: a refused launch is reported as accepted",
                'Set c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 3}.',
            )
        )
    return worst(results)


@check("service", "The Hub starts the portal's web service")
async def service(site: Site) -> Result:
    services = {definition.get("name"): definition for definition in site.of_hub("services")}
    if "portal" not in services:
        return failure(
            "c.JupyterHub.services has no service 'portal'",
            "Use c.JupyterHub.services.append(…) in your own file, not = […], and keep "
            "deploy/jupyterhub_config.d/20-service.py.",
        )
    scopes = set(site.of_hub("extra_user_scopes"))
    for role in site.of_hub("load_roles"):
        if role.get("name") == "user" and "scopes" in role:
            scopes = set(role["scopes"])  # JupyterHub ignores extra_user_scopes then
    if not scopes & {"access:services", "access:services!service=portal"}:
        return failure(
            "the role 'user' has no access to the service",
            "Use c.JupyterHub.extra_user_scopes.update(…) in your own file, not = {…}, and no role "
            "'user' in c.JupyterHub.load_roles.",
        )
    address = urlsplit(services["portal"].get("url", ""))
    if not await asyncio.to_thread(_hub_owners, site) and address.port:
        with socket.socket() as probe:
            probe.settimeout(2)
            if probe.connect_ex((address.hostname or "127.0.0.1", address.port)) == 0:
                return failure(
                    f"no Hub runs, but another program listens at {address.netloc}: the service, "
                    "and therefore the Hub, cannot start",
                    "Choose another port: set PORTAL_SERVICE_PORT for the Hub.",
                )
    return ok(f"{address.geturl()}")
