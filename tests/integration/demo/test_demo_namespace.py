"""The demo's view of /etc, while the host's accounts change beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import checkout
import pytest
from conftest import a_home

from portal.demo import namespace

pytestmark = pytest.mark.skipif(
    not namespace.allowed(), reason="this machine refuses mount namespaces"
)

# The machine, for this test: a copy of /etc in a namespace of its own.
_MACHINE = """
mount -t tmpfs none "$1/machine" && cp -a /etc "$1/machine/" && mount --bind "$1/machine/etc" /etc
rm -f /etc/portal-new; exec "$2" -c "$3" "$1" "$4"
"""
_DEMO = """
import grp, os, pwd, shutil, subprocess, sys
from pathlib import Path
from portal.demo import namespace
from portal.demo.home import Home
from portal.demo.people import People
from portal.demo.daemons.process import leftovers
from portal.where import data_path

root, kernel = Path(sys.argv[1]), sys.argv[2]
if kernel == "no-overlay":
    namespace._mounted = lambda *words: False
home = Home(root / "h", root / "c")
home.make(shared=True)
(home.demo / "slurm" / "etc").mkdir(parents=True)
(home.demo / "slurm" / "etc" / "slurm.conf").touch()
deploy = data_path("deploy")
told, tell = os.pipe()
heard, hear = os.pipe()
child = os.fork()
if child == 0:
    namespace.enter(home, People.read(deploy / "demo" / "people.toml"), deploy)
    os.write(tell, b"inside")
    os.read(heard, 1)
    print(pwd.getpwnam("ada").pw_uid, "ada" in grp.getgrnam("portal-users").gr_mem)
    words = ["sudo", "-n", "-l", "-U", "portal"]
    print("sbatch" in subprocess.run(words, capture_output=True, text=True).stdout)
    print(Path("/etc/slurm/slurm.conf").exists(), Path("/etc/ssl").is_dir())
    print(Path("/etc/portal-new").exists())
    print([line for line in Path("/etc/shadow").read_text().splitlines() if "$" in line])
    sys.stdout.flush()
    os._exit(0)
os.read(told, 6)
assert child in leftovers(home.root, home.run)
for name in ("passwd", "group", "shadow", "gshadow", "sudoers", "nsswitch.conf", "hosts"):
    file = Path("/etc") / name
    if file.exists():  # as useradd(8) does
        shutil.copy2(file, f"{file}+")
        os.rename(f"{file}+", file)
Path("/etc/portal-new").touch()  # as a package that is installed meanwhile
os.write(hear, b"x")
os.waitpid(child, 0)
assert not any(line.startswith("ada:") for line in Path("/etc/passwd").read_text().splitlines())
"""


@pytest.mark.parametrize("kernel", ["overlay", "no-overlay"])
def test_accounts_stay_when_the_hosts_files_are_replaced(kernel: str) -> None:
    with a_home() as place:
        (place / "machine").mkdir()
        done = checkout.run(
            *("unshare", "--mount", "--propagation", "private", "sh", "-c", _MACHINE, "sh"),
            *(place, sys.executable, _DEMO, kernel),
        )
        assert done.returncode == 0, done.stderr
        seen_later = kernel == "overlay"  # the copy is of the moment
        assert done.stdout.splitlines() == [
            "6101 True",
            "True",
            "True True",
            str(seen_later),
            "[]",
        ]
        assert not Path("/etc/portal-demo").is_symlink()
