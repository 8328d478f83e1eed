#!/bin/sh
# An upgrade of the Debian package under systemd, in a booted root (root.sh) of the Debian that the
# packages are for. As root:
#
#   sh tests/roots/upgrade.sh ROOT PACKAGE.deb
#
# Installs the package, starts the portal's units with a small configuration, installs the same
# package as a later version while pages are asked for every 50 ms, and says for how long none came.
# The Hub must be another process then, and the proxy, which holds people's websockets, the same.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
[ $# = 2 ] || { echo "usage: upgrade.sh ROOT PACKAGE.deb" >&2; exit 1; }
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
in_root() { sh "$here/root.sh" run "$root" "$@"; }

dpkg-deb -R "$2" "$work/later"
sed -i 's/^Version: .*/&+later/' "$work/later/DEBIAN/control"
dpkg-deb -z1 -b "$work/later" "$root/root/later.deb" >/dev/null
cp "$2" "$root/root/first.deb"
cat >"$root/root/config.py" <<'END'
from portal.paths import data_path
c = get_config()
load_subconfig(str(data_path("deploy") / "jupyterhub_config.py"))
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8001"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "portal-demo"
c.Authenticator.manage_groups = False
c.Authenticator.allow_all = True
END
cat >"$root/root/upgrade.py" <<'END'
import subprocess, threading, time, urllib.error, urllib.request

HUB, PROXY = "data-scientist-portal.service", "data-scientist-portal-proxy.service"
seen = []  # seconds and the answer: status, or 0

def asked():
    try:
        with urllib.request.urlopen("http://127.0.0.1:8000/hub/login", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0

def service():
    try:
        urllib.request.urlopen("http://127.0.0.1:8000/services/portal/api/v1/version", timeout=5)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
    return 200

def first(true):
    until = time.monotonic() + 180
    while not true():
        assert time.monotonic() < until, "it does not answer: journalctl -u data-scientist-portal"
        time.sleep(0.1)

def pid(unit):
    show = ["systemctl", "show", "-P", "MainPID", unit]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()

def ask():
    while not over.is_set():
        seen.append((time.monotonic(), asked()))
        time.sleep(0.05)

first(lambda: asked() == 200 and service() == 403)
before = {unit: pid(unit) for unit in (HUB, PROXY)}
over = threading.Event()
asking = threading.Thread(target=ask)
asking.start()
began = time.monotonic()
apt = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "/root/later.deb"]
subprocess.run(apt, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
print(f"apt: {time.monotonic() - began:.1f} s")
first(lambda: asked() == 200 and service() == 403)
over.set()
asking.join()
assert pid(HUB) != before[HUB], "the Hub was not started again"
assert pid(PROXY) == before[PROXY], "the proxy was started again"
show = ["dpkg-query", "-W", "-f", "${Version}", "data-scientist-portal"]
version = subprocess.run(show, capture_output=True, text=True).stdout
assert version.endswith("+later"), version
good = [at for at, status in seen if status == 200]
print(f"without pages: {max(b - a for a, b in zip(good, good[1:])):.1f} s of {len(seen)} questions")
END
in_root sh -ec '
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
apt-get install -q -y --no-install-recommends --allow-downgrades python3 /root/first.deb >/dev/null
id portal >/dev/null 2>&1 || useradd --system --user-group --home-dir /var/lib/data-scientist-portal --shell /usr/sbin/nologin portal
mkdir -p /etc/data-scientist-portal
mv /root/config.py /etc/data-scientist-portal/jupyterhub_config.py
echo CONFIGPROXY_AUTH_TOKEN=of-this-root-alone >/etc/data-scientist-portal/secrets.env
systemctl enable -q --now data-scientist-portal-proxy.service data-scientist-portal.service
exec python3 /root/upgrade.py'
