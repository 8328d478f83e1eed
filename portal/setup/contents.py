"""Contents of the files that are written: the packaged ones, with a site's answers in them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from portal.errors import ConfigurationError
from portal.paths import data_path

from . import quoting
from .place import ETC

_PACKAGED = "/opt/data-scientist-portal/venv/bin/"
SLURM_ENV = f"{ETC}/slurm.env"
PASSWORD = f"{ETC}/ldap-password"
OWN_SETTINGS = f"{ETC}/jupyterhub_config.d"
ENVIRONMENTS = f"{ETC}/environments"


def sudoers(answers: dict[str, Any]) -> str:
    """Return deploy/sudoers with this site's account, group and commands, without an account of
    images: docs/how-to/images.md adds it."""
    text = (data_path("deploy") / "sudoers").read_text()
    folder = answers["slurm_bin"]
    commands = [quoting.sudoers(f"{folder}/{name}") for name in ("sbatch", "scancel")]
    group = quoting.sudoers(answers["users_group"])
    values = {
        r"^(User_Alias\s+PORTAL_HUB) = .*$": answers["account"],
        r"^(Runas_Alias\s+PORTAL_PEOPLE) = .*$": f"%{group}",
        r"^(Cmnd_Alias\s+PORTAL_SLURM) = .*$": ", ".join(commands),
    }
    for pattern, value in values.items():
        text = _put(pattern, lambda found, value=value: f"{found[1]} = {value}", text)
    if answers["slurm_conf"]:
        text += f"Defaults:PORTAL_HUB env_file={SLURM_ENV}\n"
    rule = text[text.index("User_Alias") :]
    return (
        "# Rights of the Hub's account: to submit and cancel jobs as the portal's users. Nothing\n"
        "# else. Written by `portal setup`; docs/how-to/existing-cluster.md explains it.\n" + rule
    )


def slurm_env(answers: dict[str, Any]) -> str:
    """Return the file of variables that sudo sets: its values may be quoted, sudoers(5)."""
    return f'SLURM_CONF="{answers["slurm_conf"]}"\n'


def configuration(answers: dict[str, Any]) -> str:
    """Return the Hub's configuration: the portal's, the site's answers, and its own files last."""
    proxy, api, hub, service = answers["ports"]
    address = answers["hub_address"]
    address = f"[{address}]" if ":" in address else address
    lines = [
        "# Written by `portal setup`, which replaces it when it runs again. Put your own settings",
        f"# into {OWN_SETTINGS}/*.py, which are read last.",
        f"# Ports: {' '.join(answers['ports'])}",
        "import os",
        "from pathlib import Path",
        "",
        "from portal.paths import data_path",
        "",
        "c = get_config()",
        f'os.environ["PORTAL_SERVICE_PORT"] = "{service}"',
        'load_subconfig(str(data_path("deploy") / "jupyterhub_config.py"))',
        "",
        "# The Hub: users connect through a web server with HTTPS, nodes directly.",
    ]
    settings: dict[str, Any] = {
        "JupyterHub.bind_url": f"http://127.0.0.1:{proxy}",
        "JupyterHub.hub_bind_url": f"http://0.0.0.0:{hub}",
        "JupyterHub.hub_connect_url": f"http://{address}:{hub}",
        "ConfigurableHTTPProxy.should_start": False,
        "ConfigurableHTTPProxy.api_url": f"http://127.0.0.1:{api}",
        **_origin(answers),
        "LDAPAuthenticator.servers": answers["ldap_servers"],
        "LDAPAuthenticator.ca_file": answers["ldap_ca_file"],
        "LDAPAuthenticator.people_base": answers["ldap_people_base"],
        "LDAPAuthenticator.groups_base": answers["ldap_groups_base"],
        **_logins(answers),
        "EnvironmentCatalog.directory": ENVIRONMENTS,
        "SlurmRunner.bin_dir": "" if answers["slurm_bin"] == "/usr/bin" else answers["slurm_bin"],
        "SlurmRunner.slurm_conf": answers["slurm_conf"],
        "PortalSpawner.log_directory": answers["log_directory"],
        "PortalSpawner.apptainer": answers["apptainer"],
    }
    lines += [
        f"c.{name} = {quoting.python(value)}"
        for name, value in settings.items()
        if value not in ("", [])
    ]
    for name in ("admin_groups", "allowed_groups"):
        if answers[name]:
            lines.append(f"c.LDAPAuthenticator.{name} = set({quoting.python(answers[name])})")
    if answers["binds"]:
        lines.append("c.PortalSpawner.binds = [")
        for bind in answers["binds"]:
            path, _, mode = bind.rpartition(":")
            lines.append(f'    {{"source": {quoting.python(path)}, "read_only": {mode == "ro"}}},')
        lines.append("]")
    lines += [
        "",
        f'for _file in sorted(Path("{OWN_SETTINGS}").glob("*.py")):',
        "    load_subconfig(str(_file))",
    ]
    return "\n".join(lines) + "\n"


def environment(path: str) -> tuple[str, str]:
    """Return name and file of the first environment: of an image, or of a venv on the nodes."""
    kind, key = ("container", "image") if path.endswith((".sif", ".img")) else ("venv", "path")
    name = re.sub(r"[^a-z0-9]+", "-", Path(path).stem.lower()).strip("-") or "python"
    lines = [
        f"name: {quoting.yaml(name)}",
        f"title: {quoting.yaml(Path(path).stem)}",
        f"kind: {kind}",
        f"{key}: {quoting.yaml(path)}",
        "default:",
        '  time: "4:00:00"',
    ]
    return name, "\n".join(lines) + "\n"


def unit(name: str, answers: dict[str, Any]) -> str:
    """Return a packaged unit with this installation's paths, account and ports."""
    text = (data_path("deploy") / "systemd" / name).read_text()
    proxy, api, hub, _ = answers["ports"]
    for old, new in (
        ("--port=8000", f"--port={proxy}"),
        ("--api-port=8001", f"--api-port={api}"),
        ("127.0.0.1:8081", f"127.0.0.1:{hub}"),
        ("\nUser=portal\n", f"\nUser={answers['account']}\n"),
        ("\nGroup=portal\n", f"\nGroup={answers['account']}\n"),
    ):
        text = text.replace(old, new)
    # Pages of a checkout that is not here.
    text = re.sub(r"^Documentation=file:///opt/.*\n", "", text, flags=re.MULTILINE)
    if _origin(answers).get("JupyterHub.subdomain_host"):
        text = text.replace("$PROXY_OPTIONS", "--host-routing $PROXY_OPTIONS")
    return re.sub(
        re.escape(_PACKAGED) + r"([\w-]+)",
        lambda found: quoting.unit(f"{sys.prefix}/bin/{found[1]}"),
        text,
    )


def _origin(answers: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the portal's own name, and of the hosts of sessions below it."""
    if answers["https"] == "none":
        return {}
    url = f"https://{answers['host_name']}"
    if not answers["session_hosts"]:
        return {"JupyterHub.public_url": url}
    return {
        "JupyterHub.public_url": url,
        "JupyterHub.subdomain_host": url,
        "JupyterHub.cookie_host_prefix_enabled": True,
        "HubOAuth.cookie_host_prefix_enabled": True,
    }


def _logins(answers: dict[str, Any]) -> dict[str, Any]:
    attribute = answers["ldap_user_attribute"]
    settings: dict[str, Any] = {}
    if attribute != "uid":
        settings["LDAPAuthenticator.username_attribute"] = attribute
        settings["LDAPAuthenticator.people_filter"] = f"({attribute}={{username}})"
    if attribute == "sAMAccountName":  # Active Directory: no groups, computers, disabled accounts
        settings["LDAPAuthenticator.people_filter"] = (
            "(&(objectCategory=person)(sAMAccountName={username})"
            "(!(userAccountControl:1.2.840.113556.1.4.803:=2)))"
        )
        settings["LDAPAuthenticator.nested_groups"] = "ad"
    if answers["ldap_bind_dn"]:
        settings["LDAPAuthenticator.search_bind_dn"] = answers["ldap_bind_dn"]
        settings["LDAPAuthenticator.search_password_file"] = PASSWORD
    elif answers["ldap_anonymous"]:
        settings["LDAPAuthenticator.search_anonymously"] = True
    settings["LDAPAuthenticator.bind_name_templates"] = answers["ldap_bind_names"]
    return settings


def _put(pattern: str, value: Any, text: str) -> str:
    text, times = re.subn(pattern, value, text, flags=re.MULTILINE)
    if times != 1:
        raise ConfigurationError(f"deploy/sudoers has no single line {pattern}. Install it again.")
    return text
