"""Submit host in namespaces of its own, for real runs of ``portal setup``: a copy of /etc, a
network with one address that nodes reach, Slurm with accounting, and an LDAP server.

    python setup_site.py WORK COMMAND …      # as root, in UNSHARE; COMMAND finds WORK/answers.yaml
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ADDRESS = "10.99.0.1"
USER, GROUP = "ada", "portal-users"
UNSHARE = ("unshare", "-mnpf", "--kill-child", "--mount-proc")


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=sys.stderr)


def prepare(work: Path, checkout: Path, node_modules: Path) -> None:
    """Give this process's namespaces an /etc, homes, a network and an installation: that of this
    environment, with the checkout's code and the proxy of a release."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo")
    share = f"{sys.prefix}/share/data-scientist-portal/deploy"
    wheels = ["--offline", "--wheel", "--no-build-isolation", "--out-dir", str(work)]
    run("uv", "build", "-q", *wheels, str(checkout / "kernels"))
    layers = work / "layers"
    layers.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "layers", str(layers))
    (layers / "deploy/proxy/node_modules").mkdir(parents=True)
    for name, lower, folder in (
        ("etc", "/etc", "/etc"),
        ("venv", sys.prefix, sys.prefix),
        ("deploy", checkout / "deploy", share),
    ):
        upper, below = layers / name, layers / f"{name}-work"
        upper.mkdir(exist_ok=True)
        below.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={below}"
        run("mount", "-t", "overlay", "overlay", "-o", options, folder)
    run("mount", "--bind", str(node_modules), f"{share}/proxy/node_modules")
    for package in ("portal", "spawners"):
        installed = Path(sysconfig.get_path("purelib"), package)
        run("mount", "--bind", str(checkout / package), str(installed))
    run(
        "uv",
        "pip",
        "install",
        "-q",
        f"--python={sys.executable}",
        "--offline",
        "--no-deps",
        *map(str, work.glob("*.whl")),
    )
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
    os.chdir("/")
    sys.exit(serve(folder, sys.argv[2:]))
