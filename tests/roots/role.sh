#!/bin/sh
# Run the Ansible role in a booted root, from the folder that tests/roots/protocol.py has copied there
# (with its answers): check mode, once, once again without a change, and check mode without a change.
#
#   sh tests/roots/role.sh ROOT
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$1
rm -rf "$root/root/ansible"
cp -R "$here/../../deploy/ansible" "$root/root/ansible"
sh "$here/root.sh" run "$root" sh -eu <<'END'
cd /root/ansible
[ -x /root/ansible-venv/bin/ansible-playbook ] || {
  python3 -m venv /root/ansible-venv
  /root/ansible-venv/bin/pip install -q ansible-core
}
package=$(ls /root/release/*.deb /root/release/data_scientist_portal-*.whl 2>/dev/null | head -n 1)
cat >site.yml <<PLAYBOOK
- hosts: localhost
  connection: local
  roles: [data_scientist_portal]
  vars:
    data_scientist_portal_package: $package
    data_scientist_portal_constraints: $(ls /root/release/*.constraints.txt)
    data_scientist_portal_answers: "{{ lookup('file', '/root/release/answers.yaml') | from_yaml }}"
PLAYBOOK
play() {
  start=$(date +%s)
  ANSIBLE_NOCOLOR=1 /root/ansible-venv/bin/ansible-playbook -i localhost, site.yml "$@" >play.log 2>&1 || {
    tail -n 30 play.log
    exit 1
  }
  printf '%s  (%s s)  %s\n' "$(grep -E '^localhost +:' play.log)" "$(($(date +%s) - start))" "$*"
}
play --check
play
for options in '' --check; do
  play $options
  grep -qE '^localhost .*changed=0 ' play.log || exit 1
done
END
