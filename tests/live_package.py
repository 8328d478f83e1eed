"""The Debian package of dist/ in a bare root of this machine's Debian: installed, started,
installed again, purged. As root; `make test-package` after `make package`.

The root has nothing of the portal's source, no Node.js and no compiler. It is made anew (about two
minutes) and removed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support/containers"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "support/suite"))
import debian_root  # in these folders
import runs

from portal.demo.environments.debian import distribution_mirror, os_release
from portal.demo.home import Home

NAME = "data-scientist-portal"
DATA = (f"/etc/{NAME}", f"/var/lib/{NAME}")
# Folders that every installation of any package changes.
_CHANGING = (
    "proc",
    "sys",
    "dev",
    "tmp",
    "run",
    "var/cache",
    "var/log",
    "var/lib/dpkg",
    "var/lib/apt",
)
_ACCOUNTS = tuple(f"/etc/{name}" for name in ("passwd", "group", "shadow", "gshadow", "sub"))
_INSTALL = "apt-get install -q -y --no-install-recommends -o Dpkg::Use-Pty=0"

_CONFIG = """
from portal.paths import data_path
c = get_config()
load_subconfig(str(data_path("deploy") / "jupyterhub_config.py"))
c.JupyterHub.bind_url = "http://127.0.0.1:18000"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:18081"
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:18001"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "portal-demo"
c.Authenticator.manage_groups = False
c.Authenticator.allow_all = True
"""

# As setup would: the account, a configuration, the units' commands, the Hub as its account.
_START = f"""
set -e
! command -v node npm gcc
test "$(portal --version)" = "$VERSION"
useradd --system --home-dir /var/lib/{NAME} --shell /usr/sbin/nologin portal
install -d -o portal /var/lib/{NAME} /var/lib/{NAME}/hub /etc/{NAME}
cat >/etc/{NAME}/jupyterhub_config.py
export CONFIGPROXY_AUTH_TOKEN=of-this-root PORTAL_SERVICE_PORT=18010
runuser -u nobody -- portal proxy --port=18000 --ip=127.0.0.1 --api-ip=127.0.0.1 --api-port=18001 \
  --default-target=http://127.0.0.1:18081 &
cd /var/lib/{NAME}/hub
runuser -u portal -- /opt/{NAME}/venv/bin/jupyterhub -f /etc/{NAME}/jupyterhub_config.py &
exec python3 - <<'END'
import re, time, urllib.error, urllib.request
def get(path):
    try:
        with urllib.request.urlopen("http://127.0.0.1:18000" + path, timeout=10) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")
    except OSError:
        return 0, ""
until = time.monotonic() + 180
while get("/services/portal/api/v1/version")[0] != 403:
    assert time.monotonic() < until, "the service does not answer"
    time.sleep(0.3)
status, page = get("/hub/login")
assert status == 200 and "Data Scientist Portal" in page, page
for font in set(re.findall(r"/services/portal/static/[^\\"]+woff2", page)):
    assert get(font)[0] == 200, font
    print("answered:", font)
END
"""

_UNITS = f"""
set -e
for unit in /lib/systemd/system/{NAME}*; do test -s "$unit"; done
! find /etc/systemd -name '{NAME}*' | grep .
! dpkg-query -W -f='${{Conffiles}}' {NAME} | grep .
# No program that runs has written bytecode, or changed a file.
! dpkg --verify {NAME} | grep .
"""


def main() -> int:
    """Return 1 if the package is not as it should be."""
    runs.end_on_signals()
    dist = Path(__file__).resolve().parents[1] / "dist"
    found = sorted(dist.glob(f"{NAME}_*.deb"))
    if len(found) != 1:
        sys.exit("There is not one package in dist/: run `make package` first.")
    cache = Home.find().cache
    with tempfile.TemporaryDirectory(prefix="package-root-", dir=cache) as folder:
        root = Path(folder) / "root"  # whose mode is not the folder's
        root.mkdir(mode=0o755)
        suite = os_release()["VERSION_CODENAME"]
        mirror = distribution_mirror()
        _said("a bare root", lambda: debian_root.fill(root, suite, mirror, ["python3"]))
        return _tried(root, found[0])


def _tried(root: Path, package: Path) -> int:
    inside = "/root/" + package.name
    (root / inside[1:]).write_bytes(package.read_bytes())
    fields = ("Depends", "Version")
    depends, version = (_output("dpkg-deb", "-f", str(package), field) for field in fields)
    _in(root, f"apt-get satisfy -q -y --no-install-recommends '{depends}'")
    before = _files(root)
    _said("install", lambda: _in(root, f"{_INSTALL} {inside}"))
    _said("units, files", lambda: _in(root, _UNITS))
    _said("start", lambda: _in(root, f"VERSION={version}\n{_START}", text=_CONFIG))
    _said("files again", lambda: _in(root, _UNITS))
    data = _data(root)
    _said("install again", lambda: _in(root, f"{_INSTALL} --reinstall {inside}"))
    _said("remove", lambda: _in(root, f"apt-get remove -q -y {NAME}"))
    _said("purge", lambda: _in(root, f"apt-get purge -q -y {NAME}"))
    left = sorted(name for name in _files(root) - before if not name.startswith(DATA + _ACCOUNTS))
    if left or _data(root) != data:
        print(f"A purge leaves {', '.join(left) or 'data that have changed'}.")
        return 1
    print(f"A purge leaves nothing but {len(data)} files of the site.")
    return 0


def _in(root: Path, script: str, text: str = "") -> None:
    """Run a script in the root, whose processes end with it. Raises SystemExit."""
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc"]
    where = [*spaces, "chroot", str(root), "/bin/sh", "-c", script]
    own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}
    done = subprocess.run(
        where,
        input=text,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**own, "DEBIAN_FRONTEND": "noninteractive"},
        timeout=900,
    )
    if done.returncode:
        sys.exit(f"failed in the root:\n{done.stdout[-6000:]}")


def _files(root: Path) -> set[str]:
    pruned = [word for name in _CHANGING for word in ("-path", f"{root}/{name}", "-o")]
    found = _output("find", str(root), "-xdev", "(", *pruned[:-1], ")", "-prune", "-o", "-print")
    return {f"/{Path(name).relative_to(root)}" for name in found.splitlines()}


def _data(root: Path) -> dict[Path, bytes]:
    files = (path for name in DATA for path in (root / name[1:]).rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files}


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def _said(what: str, do: Callable[[], None]) -> None:
    began = time.monotonic()
    do()
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
