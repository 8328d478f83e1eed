"""Files of the demo's private Slurm: directories, munge key and configuration.

The configuration templates are in deploy/demo/slurm/; this module computes their $variables.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from string import Template

from portal.errors import ConfigurationError

from ..home import Home
from ..people import Account, People, myself
from .gpus import Gpus
from .ports import Ports, own_address
from .process import MARK

_COMMANDS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sacctmgr",
    "sbatch",
)
# The machine's programs for terminals in the demo's container (paths of Debian and Ubuntu).
_IN_CONTAINERS = (
    "sbatch",
    "srun",
    "salloc",
    "squeue",
    "scancel",
    "sinfo",
    "sacct",
    "tclsh8.6",
    "ps",
)
_MODULES = (
    "/etc/profile.d/modules.sh",
    "/etc/environment-modules",
    "/usr/share/modules",
    "/usr/share/tcltk/tcl8.6",
)
_LIBRARIES = (
    "*/slurm-wlm",
    "*/libmunge.so.2",
    "*/libproc2.so.*",
    # Needed by srun from 24.11 on and absent from small images; 26.05 links either HTTP parser.
    "*/liblz4.so.1",
    "*/libxxhash.so.0",
    "*/libhttp_parser.so.*",
    "*/libllhttp.so.*",
    "*/libtcl8.6.so*",
    "*/modulecmd.tcl",
    "*/libtclenvmodules.so",
)
_SBIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# CgroupPlugin of cgroup.conf(5) by the first version of Slurm that knows it, newest first. Without
# one, 22.05 takes the plugin for cgroup v2 where the kernel has that alone, and slurmd ends if
# systemd does not answer; the plugin for v1 does nothing unless it is asked. Newer versions require
# cgroups unless they are told otherwise; 23.11.4 does not start with "disabled".
_NO_CGROUPS = {(24, 5): "disabled", (22, 5): "cgroup/v1"}


class SlurmPlace:
    """Files, accounts and addresses of a private Slurm in ``home``.

    ``real_accounts``: the root form. ``env``: environment variables of client commands.
    ``gpus.simulated``: True if the GPUs are simulated.
    """

    def __init__(
        self, home: Home, people: People, ports: Ports, deploy: Path, *, real_accounts: bool
    ) -> None:
        self.home = home
        self.people = people
        self.ports = ports
        self.templates = deploy / "demo" / "slurm"
        self.real_accounts = real_accounts
        self.place = home.demo / "slurm"
        self.etc = self.place / "etc"
        self.gpus = Gpus.of_this_machine()
        me = myself()
        services = people.services if real_accounts else {}
        self.slurm: Account = services.get("slurm", me)
        self.munge: Account = services.get("munge", me)
        self.mysql: Account = services.get("mysql", me)
        self.address = own_address() or "127.0.0.1"
        self.loopback_only = real_accounts or own_address() is not None
        if real_accounts:
            self.address = "127.0.0.1"
        self.hub_account = "portal" if real_accounts else me.name
        self.env = {"SLURM_CONF": str(self.etc / "slurm.conf")}
        self.munge_socket = self.place / "munge" / "s"
        self.mysql_socket = self.place / "mariadb" / "s"

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        gpu_nodes = [f"gpu{n:02}" for n in range(1, 7)] if self.gpus.simulated else ["gpu01"]
        return [*gpu_nodes, "cpu01", "cpu02"]

    def commands_for_containers(self) -> list[str]:
        """Return the paths to bind into a container so that Slurm's commands and `module` work in
        it: programs, libraries, configuration, munge's socket, and Slurm's accounts."""
        paths = [
            *(f"/usr/bin/{name}" for name in _IN_CONTAINERS),
            *_MODULES,
            str(self.etc),
            str(self.munge_socket.parent),
            *(["/etc/slurm", "/etc/passwd", "/etc/group"] if self.real_accounts else []),
        ]
        libraries = Path("/usr/lib")
        for pattern in _LIBRARIES:
            paths += [str(path) for path in sorted(libraries.glob(pattern))]
        return [path for path in paths if Path(path).exists()]

    def prepare(self) -> None:
        """Create directories, key and configuration. Call it before entering the namespace.

        Raises ConfigurationError if a program is missing.
        """
        missing = [name for name in _COMMANDS if shutil.which(name, path=_SBIN) is None]
        if missing:
            raise ConfigurationError(
                f"These programs of Slurm, MariaDB or munge are missing: {', '.join(missing)}. "
                "`make run` installs them."
            )
        self.place.mkdir(exist_ok=True)
        self.etc.mkdir(exist_ok=True)
        for name, account in (("munge", self.munge), ("mariadb", self.mysql)):
            self._directory(self.place / name, account, 0o755)
        for name, account in (("ctld", self.slurm), ("dbd", self.slurm), ("d", myself())):
            self._directory(self.place / name, account, 0o755 if name == "d" else 0o700)
        self._directory(self.place / "mariadb" / "tmp", self.mysql, 0o700)
        # Slurm's daemons write logs and pid files under their own account.
        self._directory(self.home.log / "slurm", self.slurm, 0o755)
        self._directory(self.home.run / "slurm", self.slurm, 0o755)
        self._directory(self.home.log / "mariadb", self.mysql, 0o755)
        key = self.place / "munge" / "key"
        if not key.exists():
            self._put(key, secrets.token_bytes(128), self.munge, 0o400)
        self.ports.pick("slurmctld", "slurmdbd", *self.nodes)
        self._write_configuration()

    def daemon_env(self) -> dict[str, str]:
        """Return the environment variables of the daemons and of the demo's own commands."""
        return {
            "PATH": _SBIN,
            "LANG": "C.UTF-8",
            "HOME": "/",
            MARK: str(self.home.root),
            "MYSQL_UNIX_PORT": str(self.mysql_socket),
            **self.env,
        }

    def _words(self) -> Iterator[tuple[str, str]]:
        yield "slurm_user", self.slurm.name
        yield "address", self.address
        yield (
            "communication",
            "NoInAddrAny,NoCtldInAddrAny" if self.loopback_only else "NoAddrCache",
        )
        yield "slurmd_user", myself().name
        yield "munge_socket", str(self.munge_socket)
        yield "mysql_socket", str(self.mysql_socket)
        yield "mysql_log", str(self.home.log / "mariadb" / "mariadbd.log")
        yield "mariadb", str(self.place / "mariadb")
        yield "state", str(self.place)
        yield "etc", str(self.etc)
        yield "run", str(self.home.run / "slurm")
        yield "log", str(self.home.log / "slurm")
        yield "slurmctld_port", str(self.ports["slurmctld"])
        yield "slurmdbd_port", str(self.ports["slurmdbd"])
        for node in self.nodes:
            yield f"{node}_port", str(self.ports[node])
        yield "researchers", ",".join(self.people.researchers)
        yield "instructors", ",".join(self.people.instructors)
        yield "students", ",".join(self.people.students)
        yield "hub_account", self.hub_account
        yield "hub_slurm_accounts", "portal" if self.real_accounts else "research,dl101"
        yield from self.gpus.words()

    def _filled(self, name: str) -> str:
        try:
            return Template((self.templates / name).read_text()).substitute(dict(self._words()))
        except KeyError as error:
            raise ConfigurationError(f"{self.templates / name}: unknown variable {error}") from None

    def _write_configuration(self) -> None:
        kind = "" if self.gpus.simulated else "-nvidia"
        for target, template in (
            ("slurm.conf", "slurm.conf"),
            ("nodes.conf", f"nodes{kind}.conf"),
            ("gres.conf", f"gres{kind}.conf"),
            ("plugstack.conf", "plugstack.conf"),
            ("mariadb.cnf", "mariadb.cnf"),
        ):
            self._put(self.etc / target, self._filled(template).encode(), myself(), 0o644)
        self._put_cgroup_plugin()
        # A script: its dollar signs are the shell's.
        prolog = (self.templates / "task-prolog").read_bytes()
        self._put(self.etc / "task-prolog", prolog, myself(), 0o755)
        # slurmdbd refuses a file that others can read.
        self._put(
            self.etc / "slurmdbd.conf", self._filled("slurmdbd.conf").encode(), self.slurm, 0o600
        )
        self._put(
            self.place / "mariadb" / "init.sql",
            self._filled("mariadb.sql").encode(),
            self.mysql,
            0o644,
        )

    def _put_cgroup_plugin(self) -> None:
        file, version = self.etc / "cgroup.conf", _slurm_version()
        file.unlink(missing_ok=True)  # of another version
        if plugin := cgroup_plugin(version):
            text = "# This demo's jobs need no rights over the machine's cgroups.\n"
            self._put(file, f"{text}CgroupPlugin={plugin}\n".encode(), myself(), 0o644)

    def _directory(self, path: Path, account: Account, mode: int) -> None:
        path.mkdir(exist_ok=True)
        if account.uid != os.geteuid():
            os.chown(path, account.uid, account.gid)
        path.chmod(mode)

    def _put(self, path: Path, content: bytes, account: Account, mode: int) -> None:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            if account.uid != os.geteuid():
                os.fchown(file.fileno(), account.uid, account.gid)
        path.chmod(mode)


def cgroup_plugin(version: tuple[int, ...]) -> str:
    """Return the CgroupPlugin with which this version of Slurm leaves cgroups alone; "" if it knows
    none."""
    return next((name for since, name in _NO_CGROUPS.items() if version >= since), "")


def _slurm_version() -> tuple[int, ...]:
    """Return the version of slurmctld as (24, 11); () if unknown."""
    program = shutil.which("slurmctld", path=_SBIN) or "slurmctld"
    output = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=30).stdout
    return version_in(output)


def version_in(output: str) -> tuple[int, ...]:
    """Return (24, 11) for "slurm-wlm 24.11.5" or "slurm 24.11.5-1"; () if there is no version."""
    match = re.search(r"(?:^|\s)([0-9]{2})\.([0-9]{2})\b", output)
    return (int(match[1]), int(match[2])) if match else ()
