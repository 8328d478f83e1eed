#!/bin/sh
# What an admin may meet, in a root that tests/roots/protocol.py has set up: each fault must be refused in
# words, and nothing may be written.
#
#   sh tests/roots/faults.sh ROOT
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sh "$here/root.sh" run "$1" sh -eu <<'END'
cd /root/release
sum() { find /etc /var/lib/data-scientist-portal/setup.json -type f -exec sha256sum {} + 2>/dev/null | sort | sha256sum; }
portal setup --undo --yes >/dev/null
before=$(sum)
try() { # name, words of the sentence, command
  name=$1 words=$2
  shift 2
  if "$@" >/tmp/said 2>&1; then said=; else said=$(grep -m 1 "$words" /tmp/said || true); fi
  [ -n "$said" ] && [ "$(sum)" = "$before" ] || {
    cat /tmp/said
    echo "WRONG: $name"
    exit 1
  }
  echo "$name: $said"
}
set_up='exec portal setup --answers=answers.yaml --yes'
(umask 077 && echo wrong >wrong)
{ grep -v '^ldap_password_file' answers.yaml; echo 'ldap_password_file: /root/release/wrong'; } >wrong.yaml
try 'wrong LDAP password' 'refuses' portal setup --answers=wrong.yaml --yes
systemctl stop slurmctld
try 'slurmctld stopped' 'slurmctld does not answer' sh -c "$set_up"
systemctl start slurmctld
try 'read-only /etc' 'is read-only' unshare -m sh -c "mount --bind /etc /etc; mount -o remount,bind,ro /etc; $set_up"
try 'full /etc' 'free space' unshare -m sh -c "mkdir -p /run/etc; mount -t tmpfs -o size=8m tmpfs /run/etc; cp -a /etc/. /run/etc
  dd if=/dev/zero of=/run/etc/filler bs=4k 2>/dev/null; mount --bind /run/etc /etc; $set_up"
END
