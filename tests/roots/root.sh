#!/bin/sh
# A bare machine of another distribution, without a virtual one: a root file system in namespaces of
# its own, with systemd as its process 1. As root:
#
#   sh tests/roots/root.sh make SUITE ROOT [MIRROR]   bookworm, trixie (the mirror of this machine's
#                                                     apt) or noble (MIRROR: one of Ubuntu)
#   sh tests/roots/root.sh boot ROOT                  until it is stopped; the log is ROOT.log
#   sh tests/roots/root.sh run ROOT COMMAND…          in the booted root
#   sh tests/roots/root.sh stop ROOT
#
# Then, in the root: tests/roots/site.sh makes it a cluster's submit host, protocol.py follows the page
# Install, faults.sh and role.sh follow that. upgrade.sh needs a booted root alone.
#
# The root has its own network: it reaches what this machine reaches (slirp4netns(1)), and this
# machine's loopback at 10.0.2.2. Nobody reaches the root.
set -eu

fail() {
  printf 'root.sh: %s\n' "$*" >&2
  exit 1
}

make_root() { # suite root [mirror]
  mirror=${3:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep '/debian/*$' | head -n 1)}
  [ -n "$mirror" ] || fail "apt of this machine names no mirror of Debian: name one after the root."
  packages=systemd,systemd-sysv,dbus,ca-certificates
  case $1 in
    bookworm | trixie) debootstrap --variant=minbase --include=$packages "$1" "$2" "$mirror" ;;
    # Debian has no keys of Ubuntu's.
    noble) debootstrap --no-check-gpg --variant=minbase --components=main,universe --include=$packages "$1" "$2" "$mirror" ;;
    *) fail "$1 is none of bookworm, trixie, noble." ;;
  esac
  # Certificates that this machine's administrators trust: their network may need them.
  find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$2/usr/local/share/ca-certificates/" \;
  chroot "$2" update-ca-certificates >/dev/null
  echo "$1" >"$2/etc/hostname"
  rm -f "$2/etc/resolv.conf"
  echo 'nameserver 10.0.2.3' >"$2/etc/resolv.conf"
  printf '127.0.0.1 localhost\n10.0.2.100 %s portal.example.org portal-doctor.portal.example.org ada.portal.example.org\n10.0.2.2 ldap.example.org\n' "$1" >"$2/etc/hosts"
}

# Runs as process 1 of the new namespaces. All its mounts end with them.
# shellcheck disable=SC2016
inside='
set -eu
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
for device in null:3 zero:5 full:7 random:8 urandom:9; do
  mknod -m 666 "$root/dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 "$root/dev/tty" c 5 0
ln -s /proc/self/fd "$root/dev/fd"
hostname "$(cat "$root/etc/hostname")"
ip link set lo up
cd "$root"
mkdir -p .before
pivot_root . .before
umount -l /.before
while [ ! -e /run/network ]; do sleep 0.1; done
rm /run/network
exec env -i container=other PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
'

boot() { # root
  name=$(basename "$1")
  # systemd needs a cgroup of version 2 that is its own.
  for base in /sys/fs/cgroup/unified /sys/fs/cgroup; do
    [ ! -e "$base/cgroup.procs" ] || break
  done
  mkdir -p "$base/root-$name"
  (
    echo 0 >"$base/root-$name/cgroup.procs" # this process; no child, which pgrep would find
    exec unshare --mount --pid --ipc --uts --net --cgroup --fork sh -c "$inside" sh "$1"
  ) </dev/null >"$1.log" 2>&1 &
  outer=$!
  until first=$(pgrep -P "$outer" 2>/dev/null); do
    kill -0 "$outer" 2>/dev/null || fail "the root did not start: $(tail -n 1 "$1.log")"
    sleep 0.1
  done
  echo "$first" >"$1.pid"
  slirp4netns --configure --mtu=1400 "$first" tap0 >"$1.network.log" 2>&1 </dev/null &
  echo $! >"$1.network.pid"
  until nsenter -t "$first" -n ip route 2>/dev/null | grep -q default; do sleep 0.1; done
  until [ -e "/proc/$first/root/run" ] && [ ! -e "/proc/$first/root/.before/bin" ]; do sleep 0.1; done
  touch "/proc/$first/root/run/network"
}

run() { # root command…
  first=$(cat "$1.pid" 2>/dev/null) || fail "$1 is not booted."
  shift
  nsenter -t "$first" -m -p -i -u -n -C -r -w env -i HOME=/root LANG=C.UTF-8 TERM=dumb PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

stop() { # root
  kill -9 "$(cat "$1.pid")" 2>/dev/null || true # the namespace's other processes end with it
  kill "$(cat "$1.network.pid")" 2>/dev/null || true
  rm -f "$1.pid" "$1.network.pid"
  sleep 1 # the kernel ends them one by one, and a cgroup with processes stays
  find /sys/fs/cgroup/unified /sys/fs/cgroup -depth -type d -path "*/root-$(basename "$1")*" -exec rmdir {} + 2>/dev/null || true
}

[ $# -ge 2 ] || fail "usage: see the beginning of this file"
[ "$(id -u)" = 0 ] || fail "only root can make and enter a root"
what=$1
shift
case $what in
  make) make_root "$@" ;;
  boot | run | stop) $what "$@" ;;
  *) fail "unknown: $what" ;;
esac
