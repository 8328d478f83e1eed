"""Plan of a setup: its steps, in their order, as the answers ask for."""

from __future__ import annotations

import re
import secrets
from typing import Any

from portal.errors import Conflict

from . import contents
from .https import WebServer, web_server
from .journal import Kept
from .place import CONFIG, ETC, HUB, STATE, UNITS, Place, ask
from .steps import Command, File, Folder, Step

HUB_UNIT, PROXY_UNIT = "data-scientist-portal.service", "data-scientist-portal-proxy.service"
SECRETS, SUDOERS = f"{ETC}/secrets.env", "/etc/sudoers.d/portal"
RELOAD, RESTART_HUB, RESTART_PROXY = "daemon-reload", f"restart {HUB_UNIT}", f"restart {PROXY_UNIT}"


def plan(answers: dict[str, Any], password: str, place: Place) -> list[Step]:
    """Return all steps. ``password``: the search account's; "" leaves the file as it is. Raises
    PortalError."""
    account, hub = answers["account"], (RESTART_HUB,)
    web = web_server(answers, place)
    steps: list[Step] = [
        _account(place, account),
        Folder(ETC, 0o755),
        Folder(contents.ENVIRONMENTS, 0o755),
        Folder(contents.OWN_SETTINGS, 0o755),
        Folder(STATE, 0o755),
        Folder(HUB, 0o700, account, strict=True),
        Folder(answers["log_directory"], 0o711, account, strict=True),
    ]
    if answers["slurm_conf"]:
        steps.append(File(contents.SLURM_ENV, contents.slurm_env(answers)))
    check = [place.program("visudo") or "visudo", "-c", "-q", "-f"]
    steps.append(File(SUDOERS, contents.sudoers(answers), 0o440, check=check))
    if answers["ldap_bind_dn"] and password:
        now = Kept.at(place.path(contents.PASSWORD))
        text = now.content.decode(errors="replace") if now else ""
        text = text if text.rstrip("\n") == password else f"{password}\n"
        steps.append(File(contents.PASSWORD, text, 0o600, account, secret=True))
    token = File(SECRETS, _secrets(place), 0o600, secret=True, then=(RESTART_PROXY, *hub))
    token.replace = True  # it has what was there
    steps += [token, File(CONFIG, contents.configuration(answers), then=hub)]
    if answers["environment"]:
        name, text = contents.environment(answers["environment"])
        steps.append(File(f"{contents.ENVIRONMENTS}/{name}.yaml", text))
    if answers["operator"]:
        steps += _slurm(answers)
    for unit, restart in ((PROXY_UNIT, RESTART_PROXY), (HUB_UNIT, RESTART_HUB)):
        text = contents.unit(unit, answers)
        steps.append(File(f"{UNITS}/{unit}", text, then=(RELOAD, restart)))
    systemctl = place.program("systemctl")
    for unit in (PROXY_UNIT, HUB_UNIT):
        if systemctl:
            steps.append(_enabled(place, systemctl, unit))
    return steps + (_web(place, web) if web else [])


def _account(place: Place, name: str) -> Step:
    prefix = [] if place.is_machine else ["--prefix", str(place.root)]
    argv = [place.program("useradd") or "useradd", *prefix, "--system", "--user-group"]
    argv += ["--home-dir", STATE, "--shell", "/usr/sbin/nologin", name]
    # No command takes it back: it owns the databases, which undo keeps.
    return Command(f"account {name}", argv, lambda: place.has_account(name), why="runs the Hub")


def _secrets(place: Place) -> str:
    """Return the file of the proxy's token, with what is there. Raises Conflict."""
    now = Kept.at(place.path(SECRETS))
    text = now.content.decode(errors="replace") if now else ""
    if re.search(r"^CONFIGPROXY_AUTH_TOKEN=.{16,}$", text, re.MULTILINE):
        return text
    if "CONFIGPROXY_AUTH_TOKEN" in text:
        raise Conflict(
            f"{place.path(SECRETS)}: CONFIGPROXY_AUTH_TOKEN is shorter than 16 characters. Remove "
            "that line, and setup makes one."
        )
    return f"{text}CONFIGPROXY_AUTH_TOKEN={secrets.token_hex(32)}\n"


def _slurm(answers: dict[str, Any]) -> list[Step]:
    """Return the Slurm account's steps. Operator is the least that sees all jobs and accounts
    (PrivateData) and cancels jobs for the portal's admins; no job may be submitted with it."""
    name, sacctmgr = answers["account"], f"{answers['slurm_bin']}/sacctmgr"
    variables = {"SLURM_CONF": answers["slurm_conf"]} if answers["slurm_conf"] else {}

    def has(*words: str) -> bool:
        found = ask([sacctmgr, "-n", "-P", "show", *words], **variables)
        return found.good and bool(found.stdout.strip())

    def limited() -> bool:
        found = ask(
            [
                sacctmgr,
                "-n",
                "-P",
                "show",
                "assoc",
                f"account={name}",
                "user=",
                "format=MaxSubmitJobs",
            ],
            **variables,
        )
        return found.good and "0" in found.stdout.split()

    def operator() -> bool:
        found = ask([sacctmgr, "-n", "-P", "show", "user", name, "format=AdminLevel"], **variables)
        level = found.stdout.strip()
        return (
            found.good
            and level in ("Operator", "Administrator")
            and has("assoc", f"user={name}", f"account={name}", "format=User")
        )

    act = [sacctmgr, "-i"]
    return [
        Command(
            f"slurm account {name}",
            [*act, "add", "account", name, "Description=the Hub", "Organization=portal"],
            lambda: has("account", name, "format=Account"),
            undo=[*act, "delete", "account", f"name={name}"],
            **variables,
        ),
        Command(
            f"slurm limit {name}",
            [*act, "modify", "account", f"name={name}", "set", "MaxSubmitJobs=0"],
            limited,
            why="no job is ever submitted with it",
            **variables,
        ),
        Command(
            f"slurm user {name}",
            [*act, "add", "user", name, f"account={name}", "adminlevel=Operator"],
            operator,
            undo=[*act, "delete", "user", f"name={name}"],
            why="sees all jobs and accounts; cancels and holds jobs for admins",
            **variables,
        ),
    ]


def _enabled(place: Place, systemctl: str, unit: str) -> Step:
    where = [] if place.is_machine else [f"--root={place.root}"]
    link = place.path(f"{UNITS}/multi-user.target.wants/{unit}")
    return Command(
        f"enable {unit}",
        [systemctl, *where, "enable", "-q", unit],
        link.is_symlink,
        undo=[systemctl, *where, "disable", "-q", unit],
    )


def _web(place: Place, web: WebServer) -> list[Step]:
    then = (f"reload {web.reload}",)
    edited = "/etc/caddy/Caddyfile"
    steps: list[Step] = [
        File(path, text, addition=path == edited, then=then) for path, text in web.files
    ]
    for argv, sign in web.enable:
        path = place.path(sign)
        undo = ["a2dissite", "-q", *argv[2:]] if argv[0] == "a2ensite" else None
        program = [place.program(argv[0]) or argv[0], *argv[1:]]
        if undo:
            undo = [place.program(undo[0]) or undo[0], *undo[1:]]
        steps.append(
            Command(f"web {' '.join(argv)}", program, path.is_symlink, undo=undo, then=then)
        )
    return steps
