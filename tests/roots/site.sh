#!/bin/sh
# Make the booted root in which it runs a submit host and the only node of a cluster: Slurm of the
# distribution with accounting, munge, people of a remote directory, sudo, nginx and a certificate.
#
#   sh tests/roots/root.sh run ROOT env DIRECTORY=… sh -s <tests/roots/site.sh
#
# The environment has DIRECTORY (a URI), BASE_DN, SEARCH_DN and SEARCH_PASSWORD; the directory's
# certificate authority lies in /etc/ssl/certs/directory.pem.
set -eu
export DEBIAN_FRONTEND=noninteractive
suite=$(hostname)
case $suite in
  bookworm) names='nslcd libnss-ldapd' ;; # both programs that sites use are met
  *) names='sssd-ldap libnss-sss' ;;
esac
apt-get update -q
# shellcheck disable=SC2086
apt-get install -q -y --no-install-recommends slurmctld slurmd slurm-client slurmdbd munge mariadb-server \
  sudo nginx openssl python3-venv procps iproute2 $names

# -- people -----------------------------------------------------------------------------------------
if [ "$suite" = bookworm ]; then
  cat >/etc/nslcd.conf <<END
uid nslcd
gid nslcd
uri $DIRECTORY
base $BASE_DN
binddn $SEARCH_DN
bindpw $SEARCH_PASSWORD
tls_reqcert demand
tls_cacertfile /etc/ssl/certs/directory.pem
END
  chmod 640 /etc/nslcd.conf
  chgrp nslcd /etc/nslcd.conf
  sed -i -E 's/^(passwd|group|shadow): .*/\1: files ldap/' /etc/nsswitch.conf
  systemctl restart nslcd
else
  mkdir -p /etc/sssd
  cat >/etc/sssd/sssd.conf <<END
[sssd]
services = nss
domains = site

[domain/site]
id_provider = ldap
ldap_uri = $DIRECTORY
ldap_search_base = $BASE_DN
ldap_default_bind_dn = $SEARCH_DN
ldap_default_authtok = $SEARCH_PASSWORD
ldap_tls_reqcert = demand
ldap_tls_cacert = /etc/ssl/certs/directory.pem
END
  chmod 600 /etc/sssd/sssd.conf
  systemctl restart sssd
fi
groupadd -f portal-users
for person in ada grace; do
  install -d -o $person -g "$(id -g $person)" -m 0700 "$(getent passwd $person | cut -d: -f6)"
  gpasswd -a $person portal-users
done

# -- Slurm ------------------------------------------------------------------------------------------
# From MariaDB 11.6 on, slurmdbd loses updates without this; older ones do not know it.
printf '[mariadbd]\nloose_innodb_snapshot_isolation=OFF\n' >/etc/mysql/mariadb.conf.d/90-slurm.cnf
systemctl enable --now munge mariadb
systemctl restart mariadb
mysql -e "CREATE DATABASE IF NOT EXISTS slurm_acct_db; CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket; GRANT ALL ON slurm_acct_db.* TO slurm@localhost"
install -o slurm -g slurm -m 0600 /dev/stdin /etc/slurm/slurmdbd.conf <<END
AuthType=auth/munge
DbdHost=localhost
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageUser=slurm
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
END
cat >/etc/slurm/slurm.conf <<END
ClusterName=site
SlurmctldHost=$suite
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStorageEnforce=associations,limits
NodeName=$suite CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0 DefaultTime=60 DefMemPerCPU=1000 State=UP
END
# No cgroups: the machine's may be of version 1, which the root does not have.
case $suite in
  trixie) echo CgroupPlugin=disabled ;;
  *) echo CgroupPlugin=cgroup/v1 ;; # Slurm before 24.05 knows no "disabled"
esac >/etc/slurm/cgroup.conf
install -d -o slurm -g slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm
systemctl restart slurmdbd
until sacctmgr -n list cluster >/dev/null 2>&1; do sleep 1; done
sacctmgr -i add cluster site || true
sacctmgr -i add account people Description=people Organization=site || true
sacctmgr -i add user ada,grace account=people || true
systemctl restart slurmctld slurmd
systemctl enable slurmdbd slurmctld slurmd nginx

# -- HTTPS ------------------------------------------------------------------------------------------
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=portal.example.org \
  -addext 'subjectAltName=DNS:portal.example.org,DNS:*.portal.example.org' \
  -keyout /etc/ssl/private/portal.example.org.key -out /etc/ssl/portal.example.org.pem 2>/dev/null
chmod 600 /etc/ssl/private/portal.example.org.key
until sinfo -h -o %T | grep -q idle; do sleep 1; done
sinfo
sudo -u ada srun -n1 id
