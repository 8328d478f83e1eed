"""Submit host in namespaces of its own, on which ``portal setup`` is run for real: a copy of /etc, a
network with one address that nodes reach, Slurm with accounting, and an LDAP server.

    python setup_site.py WORK -- COMMAND …      # run as root; COMMAND has WORK/answers.yaml
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ADDRESS = "10.99.0.1"
USER, GROUP = "ada", "portal-users"
UNSHARE = ("unshare", "-mnpf", "--kill-child", "--mount-proc")


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=sys.stderr)


def prepare(work: Path, checkout: Path, node_modules: Path) -> None:
    """Make this process's own /etc, /home, /var/lib and network."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo")
    layers = work / "layers"
    layers.mkdir()
    run("mount", "-t", "tmpfs", "layers", str(layers))
    for number, folder in enumerate(("/etc", str(checkout / "deploy/proxy"))):
        upper, below = layers / f"{number}", layers / f"{number}-work"
        upper.mkdir()
        below.mkdir()
        options = f"lowerdir={folder},upperdir={upper},workdir={below}"
        run("mount", "-t", "overlay", "overlay", "-o", options, folder)
    # As a release has it.
    (checkout / "deploy/proxy/node_modules").mkdir()
    run("mount", "--bind", str(node_modules), str(checkout / "deploy/proxy/node_modules"))
    for folder in ("/home", "/var/lib/data-scientist-portal"):
        Path(folder).mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", folder)
    run("groupadd", "-f", GROUP)
    run("useradd", "-m", "-g", GROUP, "-u", "6101", USER)


def serve(work: Path, command: list[str]) -> int:
    """Run the command while Slurm and LDAP run."""
    from small import SmallSlurm

    from portal.demo.daemons.slapd import Slapd
    from portal.paths import data_path

    slurm, ldap = SmallSlurm(work / "slurm"), Slapd(work / "ldap", data_path("deploy"))
    try:
        slurm.start()
        slurm.run("sacctmgr", "-i", "add", "account", "research")
        slurm.run("sacctmgr", "-i", "add", "user", USER, "account=research")
        ldap.start()
        (work / "answers.yaml").write_text(
            f"""\
users_group: {GROUP}
slurm_conf: {slurm.env["SLURM_CONF"]}
operator: true
hub_address: {ADDRESS}
log_directory: {work}/shared/log
ldap_servers: ["{ldap.uri}"]
ldap_ca_file: {ldap.ca_file}
ldap_people_base: "{ldap.people_dn}"
ldap_groups_base: "{ldap.groups_dn}"
ldap_bind_dn: "{ldap.bind_dn}"
ldap_password_file: {ldap.bind_password_file}
admin_groups: [portal-admins]
environment: {sys.prefix}
test_user: {USER}
"""
        )
        return subprocess.run(command, env={**os.environ, **slurm.env}).returncode
    finally:
        ldap.stop()
        slurm.stop()


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[3]
    sys.path.insert(0, str(here / "tests/slurm_outputs"))
    folder = Path(sys.argv[1])
    prepare(folder, here, Path(os.environ["PORTAL_CACHE"]) / "node/node_modules")
    sys.exit(serve(folder, sys.argv[sys.argv.index("--") + 1 :]))
