"""Submit host in namespaces of its own, for real runs of ``portal setup``: a copy of /etc, a
network with one address that nodes reach, Slurm with accounting, and an LDAP server.

``SubmitHost`` starts this file in its namespaces.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import psutil

from portal.session_packages import uv_program

ADDRESS = "10.99.0.1"
USER, GROUP = "ada", "portal-users"
PORTAL = f"{sys.prefix}/bin/portal"  # need not be in PATH
UNSHARE = ("unshare", "-mnpf", "--kill-child", "--mount-proc")


def run(*argv: str, cwd: Path | None = None) -> None:
    subprocess.run(argv, check=True, stdout=sys.stderr, cwd=cwd)


def prepare(work: Path, checkout: Path, cache: Path) -> None:
    """Give this process's namespaces an /etc, homes, a network and an installation: that of this
    environment, with the checkout's code and the proxy of a release."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo")
    share = f"{sys.prefix}/share/data-scientist-portal/deploy"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(work)]
    run(*build, cwd=checkout / "kernels")
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
    run("mount", "--bind", str(cache / "node/node_modules"), f"{share}/proxy/node_modules")
    for package in ("portal", "spawners"):
        installed = Path(sysconfig.get_path("purelib"), package)
        run("mount", "--bind", str(checkout / package), str(installed))
    run(
        str(uv_program()),
        "pip",
        "install",
        "-q",
        f"--python={sys.executable}",
        "--offline",
        "--no-deps",
        *map(str, work.glob("*.whl")),
    )
    kept = work / "venv"
    kept.mkdir()
    run("mount", "--rbind", sys.prefix, str(kept))
    for folder in ("/home", "/var/lib/data-scientist-portal"):
        Path(folder).mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", folder)
    if not Path(sys.prefix).exists():  # it lies there
        Path(sys.prefix).mkdir(parents=True)
        run("mount", "--rbind", str(kept), sys.prefix)
    run("groupadd", "-f", GROUP)
    run("useradd", "-m", "-g", GROUP, "-u", "6101", USER)


def serve(work: Path) -> None:
    """Run Slurm and LDAP until standard input ends; ``ready`` on standard output says that they
    answer, and that WORK/answers.yaml is written."""
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
        print("ready", flush=True)
        sys.stdin.read()
    finally:
        ldap.stop()
        slurm.stop()


class SubmitHost:
    """Submit host that runs in namespaces of its own until ``stop``."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._units: list[subprocess.Popen[bytes]] = []
        self._log = (work / "site.log").open("wb")
        self._process = subprocess.Popen(
            [*UNSHARE, sys.executable, __file__, str(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            self.stop()
            raise RuntimeError((work / "site.log").read_text(errors="replace")[-3000:])
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._inside = ["nsenter", "-t", children.read_text().split()[0], "-m", "-n", "-p", "--"]
        # As a login of root's has it: Slurm's default slurm.conf is not this one.
        self.env = {**os.environ, "SLURM_CONF": str(work / "slurm/slurm.conf")}

    @property
    def answers(self) -> str:
        """Answers for this host."""
        return (self.work / "answers.yaml").read_text()

    def run(self, *argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there, as root."""
        return subprocess.run(
            [*self._inside, *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.env,
            cwd="/",
            timeout=180,
            **more,
        )

    def setup(self, *options: str, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run ``portal setup`` with the answers, of which some are changed."""
        lines = [line for line in self.answers.splitlines() if line.split(":")[0] not in changed]
        lines += [f"{key}: {value}" for key, value in changed.items()]
        file = self.work / "given.yaml"
        file.write_text("\n".join(lines) + "\n")
        return self.run(PORTAL, "setup", f"--answers={file}", *options)

    def typed(self, answers: dict[str, str], *options: str) -> str:
        """Run ``portal setup`` on a terminal; answer each prompt that contains a key, and others
        with Enter. Return what the terminal showed."""
        terminal, inside = pty.openpty()
        argv = [*self._inside, PORTAL, "setup", *options]
        process = subprocess.Popen(
            argv, stdin=inside, stdout=inside, stderr=inside, env=self.env, start_new_session=True
        )
        os.close(inside)
        shown, seen = "", 0
        while True:
            try:
                shown += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # it has ended
                break
            prompt = shown[seen:].splitlines()[-1] if shown[seen:] else ""
            if prompt.endswith((": ", "[y/N] ")):
                found = next((line for key, line in answers.items() if key in prompt), "")
                os.write(terminal, f"{found}\n".encode())
                seen = len(shown)
        os.close(terminal)
        process.wait(60)
        return shown

    def start_unit(self, name: str) -> Path:
        """Start what a written unit starts, with its account, folder and variables; return the
        file of its output."""
        text = self.run("cat", f"/etc/systemd/system/{name}").stdout.replace("\\\n", "")
        unit = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
        account = unit.get("User", "nobody")
        group = unit.get("Group", "nogroup")
        variables = self.run("cat", unit["EnvironmentFile"]).stdout.split()
        words = shlex.split(unit["ExecStart"].replace("$PROXY_OPTIONS", ""))
        folder = unit.get("WorkingDirectory", "/")
        output = self.work / f"{name}.log"
        with output.open("wb") as log:
            become = ["setpriv", f"--reuid={account}", f"--regid={group}", "--clear-groups"]
            clean = ["env", "-i", "-C", folder, "PATH=/usr/sbin:/usr/bin:/bin", *variables]
            self._units.append(
                subprocess.Popen([*self._inside, *become, *clean, *words], stdout=log, stderr=log)
            )
        return output

    def stop_units(self) -> None:
        """End what the units started."""
        while self._units:
            unit = self._units.pop()
            for process in psutil.Process(unit.pid).children():  # of nsenter, which waits for it
                process.terminate()
            unit.wait(60)

    def stop(self) -> None:
        """End everything that runs there."""
        self.stop_units()
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._log.close()


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[3]
    sys.path.insert(0, str(here / "tests/slurm_outputs"))
    prepare(Path(sys.argv[1]), here, Path(os.environ["PORTAL_CACHE"]))
    os.chdir("/")
    serve(Path(sys.argv[1]))
