"""Checks of network encryption, and of who can read the secrets."""

from __future__ import annotations

import os
import stat
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from portal.images.registry.credentials import Secrets

from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site


def is_loopback(host: str) -> bool:
    """Return True if an address is this machine's own; empty and "*" mean all addresses: False."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@check("https", "Passwords do not cross the network in clear text")
async def public_address(site: Site) -> Result:
    url = urlsplit(site.of_hub("bind_url"))
    where = f"{url.hostname or 'all addresses'}:{url.port or ''}"
    if site.of_hub("ssl_cert") or url.scheme == "https":
        return ok(f"HTTPS at {where}")
    if is_loopback(url.hostname or ""):
        return ok(f"plain HTTP at {where}, reachable only from this machine")
    return failure(
        f"plain HTTP at {where}",
        "Set c.JupyterHub.ssl_key and c.JupyterHub.ssl_cert, or bind to 127.0.0.1 "
        '(c.JupyterHub.bind_url = "http://127.0.0.1:8000") behind a reverse proxy with HTTPS: '
        "docs/how-to/https.md.",
    )


@check("hub-address", "Sessions on the nodes reach the Hub over an encrypted connection")
async def hub_address(site: Site) -> Result:
    url = urlsplit(site.of_hub("hub_connect_url") or site.of_hub("hub_bind_url"))
    host = url.hostname or site.of_hub("hub_connect_ip") or site.of_hub("hub_ip")
    snapshot = await site.cluster.snapshot()
    remote = sorted(
        {node.address for node in snapshot.nodes.values() if not is_loopback(node.address)}
    )
    if is_loopback(host):
        if remote:
            return failure(
                f"the Hub's own address is {host}, which the nodes ({remote[0]}, …) cannot reach",
                "Set c.JupyterHub.hub_bind_url to an address of this machine that the nodes can "
                'reach, such as "http://10.0.0.5:8081".',
            )
        return ok(f"{host}; this machine is the only node")
    if site.of_hub("internal_ssl"):
        return ok(f"{host or 'all addresses'}, encrypted (internal_ssl)")
    return warning(
        f"sessions connect to the Hub at {host or 'all addresses'} without encryption, so anyone "
        "who can listen on the cluster's network can read their tokens",
        "Set c.JupyterHub.internal_ssl = True: docs/how-to/https.md.",
    )


@check("secrets", "Only the Hub's account can read its secrets and change its configuration")
async def secrets(site: Site) -> Result:
    results: list[Result] = []
    for path in _secret_files(site):
        try:
            mode = path.stat().st_mode
        except PermissionError:
            results.append(skipped(f"'{site.account}' cannot check {path}"))
            continue
        except OSError:
            continue  # not created yet
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            results.append(
                failure(f"everyone can read {path}", f"chmod 600 {path}, then renew the secret.")
            )
        else:
            results.append(ok(f"{path.name} {stat.S_IMODE(mode):04o}"))
    for path in config_files(site):
        mode = path.stat().st_mode
        if mode & stat.S_IWOTH:
            results.append(failure(f"everyone can change {path}", f"chmod o-w {path}"))
        else:
            results.append(ok(f"{path.name} {stat.S_IMODE(mode):04o}"))
    return worst(results) if results else skipped("no secret files exist yet")


def _secret_files(site: Site) -> list[Path]:
    """Return files that hold secrets. The Hub's relative paths count from where it is started."""
    files = [Path(site.of_hub("cookie_secret_file"))]
    database = site.of_hub("db_url")
    if database.startswith("sqlite:///"):
        files.append(Path(database.removeprefix("sqlite:///")))
    for name in ("ssl_key",):
        if site.of_hub(name):
            files.append(Path(site.of_hub(name)))
    if "search_password_file" in site.authenticator.class_traits():
        password = site.setting(site.authenticator, "search_password_file")
        if password:
            files.append(Path(password))
    files.append(Path(site.setting(Secrets, "key_file")))
    files.append(site.config_file.parent / "secrets.env")
    return files


def config_files(site: Site) -> list[Path]:
    """Return the site's configuration files: the Hub's, and those that it loads."""
    folders = [site.config_file.with_name("jupyterhub_config.d")]
    if more := os.environ.get("PORTAL_CONFIG_D"):
        folders.append(Path(more))
    files = [site.config_file, *(file for folder in folders for file in folder.glob("*.py"))]
    return [file for file in files if file.is_file()]
