"""``portal setup`` on a submit host: refused where it cannot work, before anything is written; and
from the answers to a kernel, with a real Slurm, LDAP server, sudo, proxy and Hub."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from setup_site import ADDRESS, PORTAL, USER, SubmitHost

HUB, PROXY = "data-scientist-portal.service", "data-scientist-portal-proxy.service"


@pytest.fixture(scope="module")
def host() -> Iterator[SubmitHost]:
    if os.geteuid():
        pytest.skip("only root makes namespaces")
    for program in ("slurmctld", "slapd", "sudo", "node"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin"):
            pytest.skip(f"{program} is not installed")
    work = Path(tempfile.mkdtemp(prefix="pt-", dir="/var/tmp"))
    work.chmod(0o755)
    try:
        host = SubmitHost(work)
        try:
            yield host
        finally:
            host.stop()
    finally:
        shutil.rmtree(work)


def files(host: SubmitHost) -> str:
    """Names, modes, owners and hashes below /etc and /var/lib, without what useradd leaves."""
    places = "/etc /var/lib/data-scientist-portal"
    command = (
        f"find {places} -xdev -printf '%p %m %u %g %l\\n' | sort; "
        f"find {places} -xdev -type f | sort | xargs -d '\\n' sha256sum"
    )
    lines = host.run("sh", "-c", command).stdout.splitlines()
    return "\n".join(line for line in lines if not line.split()[-1].endswith("-"))


# Several at a time: each run of setup asks Slurm and LDAP.
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {
                "ldap_password_file": "{work}/wrong",
                "hub_address": "10.99.0.9",
                "users_group": "root",
                "test_user": "munge",
                "ports": "[{taken}, 8001, 8081, 8010]",
            },
            [
                "ldap_password_file: the directory refuses cn=",
                "hub_address: 10.99.0.9 is no address of this machine",
                "users_group: root is in root, so the Hub could become root",
                "test_user: munge is not in root",
                "ports: another program listens on port ",
            ],
        ),
        (
            {"ldap_people_base": '"ou=x,dc=portal,dc=demo"', "slurm_bin": "/usr/sbin"},
            ["ldap_people_base: the directory has no", "slurm_bin: /usr/sbin has no sbatch"],
        ),
        (
            {"slurm_conf": "{work}/away.conf", "ldap_ca_file": '""', "users_group": "nobodys"},
            [
                "slurmctld does not answer: ",
                "ldap_servers: none of ldap://127.0.0.1:",
                "users_group: this machine knows no group nobodys",
            ],
        ),
        (
            {"account": "research", "log_directory": "/usr/share"},
            [
                "account: Slurm's account research is used by ada",
                "log_directory: /usr/share is another account's and not empty",
            ],
        ),
        ({"ldap_password_file": "{work}/open"}, ["ldap_password_file: others may read "]),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_written(
    host: SubmitHost, changed: dict[str, str], words: list[str]
) -> None:
    for name, text, mode in (("wrong", "nonsense", 0o600), ("open", "x", 0o644)):
        (host.work / name).write_text(text)
        (host.work / name).chmod(mode)
    conf = (host.work / "slurm/slurm.conf").read_text()
    (host.work / "away.conf").write_text(
        conf.replace("SlurmctldPort=", "SlurmctldPort=1 #").replace(
            "MessageTimeout=10", "MessageTimeout=1"
        )
    )
    taken = host.answers.split("ldap://127.0.0.1:")[1].split('"')[0]
    before = files(host)
    values = {
        key: value.replace("{work}", str(host.work)).replace("{taken}", taken)
        for key, value in changed.items()
    }
    done = host.setup("--yes", **values)
    assert done.returncode == 1
    assert [part for part in words if part not in done.stderr] == [], done.stderr
    assert "Traceback" not in done.stderr
    assert files(host) == before


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ("mount -o remount,ro /etc", "/etc is read-only"),
        (
            "mount -t tmpfs -o size=1m t /etc/systemd/system",
            "/etc/systemd/system has 1 MiB of free",
        ),
    ],
)
def test_a_disk_that_takes_nothing(host: SubmitHost, mount: str, words: str) -> None:
    back = "mount -o remount,rw /etc" if "ro" in mount.split()[2] else "umount /etc/systemd/system"
    before = files(host)
    try:
        assert host.run("sh", "-c", mount).returncode == 0
        done = host.setup("--yes")
    finally:
        assert host.run("sh", "-c", back).returncode == 0
    assert done.returncode == 1
    assert words in done.stderr
    assert files(host) == before


def test_an_old_sudo(host: SubmitHost) -> None:
    folder = host.work / "old"
    folder.mkdir()
    (folder / "sudo").write_text("#!/bin/sh\necho Sudo version 1.8.6p7\n")
    (folder / "sudo").chmod(0o755)
    path = host.env["PATH"]
    host.env["PATH"] = f"{folder}:{path}"
    try:
        done = host.setup("--yes")
    finally:
        host.env["PATH"] = path
    assert "sudo 1.8.6 is too old for the rule of the Hub's account: 1.8.8 is needed" in done.stderr


def test_only_root_sets_up(host: SubmitHost) -> None:
    done = host.run("setpriv", "--reuid=6101", "--clear-groups", PORTAL, "setup", "--yes")
    assert done.returncode == 1
    assert "`portal setup` runs as root, and this is ada" in done.stderr


def test_answers_are_typed(host: SubmitHost) -> None:
    """What was found is offered, and the password is not shown."""
    given = dict(line.split(": ", 1) for line in host.answers.splitlines())
    password = Path(given["ldap_password_file"]).read_text().strip()
    shown = host.typed(
        {
            "Address of this machine": ADDRESS,
            "Folder for job logs": given["log_directory"],
            "LDAP servers": given["ldap_servers"].strip('[]"'),
            "Base DN of users": given["ldap_people_base"].strip('"'),
            "DN of the search account": given["ldap_bind_dn"].strip('"'),
            "Password of": password,
        },
        "--dry-run",
    )
    assert "Unix group of the users who may have sessions [portal-users]: " in shown
    assert "ldap_servers: none of ldap://127.0.0.1:" in shown  # its authority is not the system's
    assert "ldap_password_file is missing" not in shown
    assert password not in shown
    assert "Traceback" not in shown


def test_from_the_answers_to_a_kernel_and_back(host: SubmitHost) -> None:
    before = files(host)
    dry = host.setup("--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "+PORTAL_HUB ALL=(PORTAL_PEOPLE) NOPASSWD: NOSETENV: PORTAL_SLURM" in dry.stdout
    password = (host.work / "ldap/search-password").read_text().strip()
    assert password not in dry.stdout
    assert files(host) == before

    done = host.setup("--yes")
    assert done.returncode == 0, done.stderr
    assert password not in done.stdout
    assert "systemctl restart data-scientist-portal.service" in done.stdout
    written = files(host)
    again = host.setup("--yes")
    assert "Nothing to change." in again.stdout
    assert files(host) == written
    level = host.run("sacctmgr", "-n", "-P", "show", "user", "portal", "format=AdminLevel")
    assert level.stdout.strip() == "Operator"
    limit = host.run(
        *("sacctmgr", "-n", "-P", "show", "assoc", "account=portal", "user="),
        "format=MaxSubmitJobs",
    )
    assert limit.stdout.strip() == "0"
    allowed = host.run("sudo", "-l", "-U", "portal").stdout
    assert "NOSETENV: NOPASSWD: /usr/bin/sbatch, /usr/bin/scancel" in " ".join(allowed.split())

    host.start_unit(PROXY)
    log = host.start_unit(HUB)
    tested = host.setup("--test")
    assert "s  the Hub answers" in tested.stdout
    assert tested.returncode == 0, tested.stdout + tested.stderr + log.read_text()
    assert "0 failures" in tested.stdout
    assert f"Test session of {USER}:" in tested.stdout
    steps = [line.split(maxsplit=2)[2] for line in tested.stdout.splitlines()[-5:]]
    assert steps == [
        f"a token of {USER}",
        "launched",
        "the session is ready",
        "a kernel calculates 1+1",
        "stopped",
    ]
    assert "exited unexpectedly" not in log.read_text()
    assert f"http://{ADDRESS}:8081" in log.read_text()
    assert host.run("squeue", "-h", f"--user={USER}", "-t", "R").stdout == ""

    host.stop_units()  # as undo would, where systemd runs
    undone = host.run(PORTAL, "setup", "--undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert "nothing deletes it but you" in undone.stdout
    left = {line.split()[0] for line in set(files(host).splitlines()) - set(before.splitlines())}
    places = {name for name in left if name.startswith("/")}
    tables = ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow")  # the account is kept
    kept = (*tables, "/var/lib/data-scientist-portal")
    assert [name for name in places if not name.startswith(kept)] == []
    assert host.run("sacctmgr", "-n", "-P", "show", "user", "portal").stdout == ""
