"""Checks of the sudo rule: the Hub's account may run only Slurm's commands as users."""

from __future__ import annotations

import asyncio
import grp
import pwd
import re
from fnmatch import fnmatchcase
from pathlib import Path

from ..command import Answer, ask
from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site

_COMMANDS = ("sbatch", "scancel")
# Variables that spawners/launch/submit.py passes to sbatch, and the effect of their absence.
_VARIABLES = (
    ("APPTAINERENV_", "sessions get no token"),
    ("PORTAL_", "the job script does not know the kind of the environment"),
)
# Debian's and Slurm's own default; /run/slurm is where a "configless" slurmd keeps it.
_USUAL = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
_INSTALL = (
    "Copy deploy/sudoers to /etc/sudoers.d/portal (owner root, mode 0440), adapt its names and "
    "paths, and check it with `visudo -c`."
)


_SLURM_CONF = (
    "If slurm.conf is not at Slurm's default path, set it in an env_file (see deploy/sudoers)."
)


def _is_usual(conf: str) -> bool:
    """Return True if Slurm reads this slurm.conf by default."""
    if conf in _USUAL:
        return True
    return Path(conf).exists() and any(
        Path(usual).exists() and Path(usual).samefile(conf) for usual in _USUAL
    )


def _keeps_slurm_conf(rules: str) -> bool:
    """Return True if an env_keep of ``sudo -l`` keeps SLURM_CONF, by name or by a pattern, or if
    the environment is not reset at all."""
    names: list[str] = []
    for quoted, bare in re.findall(r'env_keep\s*\+?=\s*(?:"([^"]*)"|([^\s,"]+))', rules):
        names += (quoted or bare).split()
    return "!env_reset" in rules or any(fnmatchcase("SLURM_CONF", name) for name in names)


async def _rules(site: Site) -> Answer | Result:
    """Return the answer of `sudo -l`, or the result that says why it was not run or failed."""
    prefix = site.runner.sudo
    if not prefix or not prefix[0].endswith("sudo"):
        return skipped(f"SlurmRunner.sudo is {prefix}")
    if site.is_root:
        return skipped(
            "root needs no sudo rule, so the Hub's was not checked",
            "Run this command as the Hub's account: sudo -u portal portal doctor",
        )
    answer = await ask([prefix[0], "-n", "-l"])
    if answer.status:
        return failure(f"'{site.account}' has no sudo rule: {answer.words}", _INSTALL)
    return answer


def _person(site: Site, rules: str) -> str:
    """Return the person to try the rule with: the named one, else a member of a group in the rule;
    "" if none."""
    if site.person:
        return site.person
    for name in re.findall(r"\((?:[^)]*[,\s])?%([\w.-]+)", rules):
        try:
            group = grp.getgrnam(name)
        except KeyError:
            continue
        members = [member for member in group.gr_mem if member != site.account]
        members += [user.pw_name for user in pwd.getpwall() if user.pw_gid == group.gr_gid]
        members = [member for member in members if member not in (site.account, "root")]
        if members:
            return members[0]
    return ""


@check("sudo", "The Hub may submit and cancel jobs as users")
async def rule(site: Site) -> Result:
    rules = await _rules(site)
    if isinstance(rules, Result):
        return rules
    results: list[Result] = []
    for name, what in _VARIABLES:
        if name not in rules.stdout:
            results.append(failure(f"sudo drops {name}*, so {what}", _INSTALL))
    conf = site.runner.slurm_conf
    if conf and not await asyncio.to_thread(_is_usual, conf) and "env_file" not in rules.stdout:
        results.append(
            warning(
                f"{conf} is this site's slurm.conf, but sudo drops SLURM_CONF: sbatch and scancel "
                "read Slurm's default file",
                _SLURM_CONF,
            )
        )
    person = _person(site, rules.stdout)
    if not person:
        results.append(skipped("no user to check with", "Name one: portal doctor --person=ada"))
        return worst(results)
    for command in _COMMANDS:
        path = site.runner.path(command)
        prefix = [word.replace("{user}", person) for word in site.runner.sudo]
        answer = await ask([*prefix, path, "--version"])
        if answer.status:
            results.append(failure(f"{command} as {person}: {answer.words}", _INSTALL))
        else:
            results.append(ok(f"{command} as {person}: {answer.stdout.strip()}"))
    return worst(results)


@check("sudo-narrow", "The Hub may run no other commands as other users")
async def narrow(site: Site) -> Result:
    rules = await _rules(site)
    if isinstance(rules, Result):
        if rules.level == "skipped":
            return rules
        return skipped("there is no sudo rule")
    results = [ok("only Slurm's commands, only as users")]
    sudo = site.runner.sudo[0]
    person = _person(site, rules.stdout)
    tries = [("root", site.runner.path("sbatch"), "jobs as root")]
    if person:
        tries.append((person, "/bin/sh", f"any command as {person}"))
    for user, command, what in tries:
        # -l with a command only checks whether it is allowed (sudo(8)).
        if (await ask([sudo, "-n", "-l", "-u", user, command])).status == 0:
            results.append(failure(f"'{site.account}' may run {what}", _INSTALL))
    if _keeps_slurm_conf(rules.stdout):
        results.append(
            failure(
                f"the rule keeps SLURM_CONF: '{site.account}' can name a file with plugins, which "
                "sbatch loads as the user, on this machine",
                "Remove it from env_keep. " + _SLURM_CONF,
            )
        )
    if re.search(r"(?<!NO)SETENV:|(?<!!)\bsetenv\b", rules.stdout):
        results.append(
            warning(
                "the rule passes all variables (SETENV), including LD_PRELOAD of the Hub's account",
                _INSTALL,
            )
        )
    return worst(results)
