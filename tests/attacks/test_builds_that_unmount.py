"""``%post`` of a definition file takes mounts away, to read what they hide: the passwords of
registries, the folder of images, what other jobs have in temporary folders. One real build as an
ordinary user, in which each attack has a mount namespace of its own."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import images
import pytest
from image_builds import build_job, give, start

from portal.images.jobs.build_dir import remove_tree
from portal.images.jobs.definition import path_digest
from portal.models.catalog.image import parse_source

pytestmark = pytest.mark.containers

SECRET = "bm90LWZvci1hbnlib2R5"
_BEGIN = "ATTACK"

# Shell commands; $SECRETS are the files that nobody in %post may read.
ATTACKS = {
    "it just reads": "",
    "umount": "umount /tmp; umount /var/tmp",
    "umount twice": "umount /tmp /tmp; umount /var/tmp /var/tmp",
    "lazy": "umount -l /tmp; umount -l /var/tmp",
    "lazy, until nothing is left": "while umount -l /tmp; do :; done; "
    "while umount -l /var/tmp; do :; done",
    "forced": "umount -f /tmp; umount -f /var/tmp",
    "recursive": "umount -R /tmp; umount -R /var/tmp",
    "everything": "umount -a; umount -l -a",
    "the root": "umount -l /",
    "the folder above": "umount -l /var; umount -l /var/tmp; umount -l /var",
    "proc": "umount -l /proc; mount -t proc proc /proc; umount -l /tmp /var/tmp",
    "moved away": "mkdir -p /m /n; mount --move /tmp /m; mount --move /var/tmp /n",
    "bound from above": "mkdir -p /m; mount --bind / /m; ls /m/tmp; umount -l /m/tmp",
    "bound with what is below": "mkdir -p /m; mount --rbind / /m; umount -l /m/tmp /m/var/tmp; "
    "cat $(for one in $SECRETS; do echo /m$one; done)",
    "remounted": "mount -o remount,bind,rw /tmp; umount -l /tmp /var/tmp",
    "made shared": "mount --make-rshared /; umount -l /tmp /var/tmp",
    "made private": "mount --make-rprivate /; umount -l /tmp /var/tmp",
    "another mount namespace": "unshare -m sh -c 'umount -l /tmp /var/tmp; cat $SECRETS'",
    "another user namespace": "unshare -Urm sh -c 'umount -l /tmp /var/tmp; cat $SECRETS'",
    "many user namespaces": "unshare -Urm unshare -Urm unshare -Urm sh -c "
    "'umount -l /tmp /var/tmp; cat $SECRETS'",
    "pivot_root": "mkdir -p /m; mount -t tmpfs none /m; mkdir /m/old; pivot_root /m /m/old; "
    "umount -l /old/tmp /old/var/tmp; cat $(for one in $SECRETS; do echo /old$one; done)",
    "chroot and out again": "mkdir -p /m; chroot /m /bin/true; cd ../../../../..; "
    "cat $(for one in $SECRETS; do echo ../../../..$one; done)",
    "roots of processes": "for pid in /proc/[0-9]*; do cat "
    "$(for one in $SECRETS; do echo $pid/root$one; done); cat $pid/root/portal-*/*; done",
    "folders of processes": "for pid in /proc/[0-9]*; do cat $pid/cwd/* $pid/cwd/../*/*; done",
    "descriptors of processes": "for file in /proc/[0-9]*/fd/*; do "
    "head -c 4096 <$file; cat $file/*; cat $file/../*; done </dev/null",
    "environments of processes": "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline",
    "memory of processes": "for pid in /proc/[0-9]*; do head -c 65536 $pid/mem; done",
    "namespaces of processes": "for pid in /proc/[0-9]*; do "
    "nsenter --mount=$pid/ns/mnt cat $SECRETS; nsenter --mount=$pid/ns/mnt "
    "sh -c 'cat /portal-*/*'; nsenter -U -m -t ${pid#/proc/} cat $SECRETS; done",
    "the enclosure's own folders": "cat /portal-*/* /portal-*/*/* /old/*",
    "names of the kernel": "for one in /proc/self/map_files/* /proc/self/task/*/root; do "
    "cat $one$(echo $SECRETS | cut -d' ' -f1); done",
    "the devices": "for one in /dev/vd* /dev/sd* /dev/nvme* /dev/dm-*; do "
    "head -c 4096 $one; mkdir -p /m; mount $one /m; cat /m/var/tmp/*/.auth/*/*; done",
    "by a link": "ln -s /proc/1/root/var/tmp /m; cat /m/*/.auth/*/*; ln -s / /r; cat /r$SECRETS",
    "an overlay": "mkdir -p /u /w /m; mount -t overlay o -o lowerdir=/var/tmp,upperdir=/u,"
    "workdir=/w /m; umount -l /var/tmp; cat /m/*/.auth/*/*",
    "below /dev/shm": "umount -l /dev/shm; umount -l /dev; cat $SECRETS",
}


@pytest.fixture(scope="module")
def said() -> Iterator[dict[str, str]]:
    """Each attack with what it printed, in one build."""
    base = images.make_image("mounting", [*images.SHELL, "util-linux", "mount"])
    with tempfile.TemporaryDirectory(prefix="attack-") as beside:
        other = Path(beside) / "of-another-job"
        other.write_text(SECRET)
        other.chmod(0o644)
        Path(beside).chmod(0o755)
        directory = Path(tempfile.mkdtemp(prefix="images-", dir="/var/tmp"))
        directory.chmod(0o755)
        try:
            yield _built(give(directory), base, other)
        finally:
            remove_tree(directory)


def _built(directory: Path, base: images.OciImage, other: Path) -> dict[str, str]:
    auth = give(give(directory / ".auth") / "other")
    for file in ("auth.json", "registries.conf"):
        (auth / file).write_text(f'{{"auths": {{"nvcr.io": {{"auth": "{SECRET}"}}}}}}\n')
        os.chown(auth / file, *[directory.stat().st_uid] * 2)
        (auth / file).chmod(0o600)
    image = directory / "0123.sif"
    image.write_text(SECRET)
    secrets = [str(auth / "auth.json"), str(image), str(other)]
    lines = ["Bootstrap: oci", f"From: {base.layout}", "%post", "set +ex"]
    lines.append(f"export SECRETS={shlex.quote(' '.join(secrets))}")
    for number, attack in enumerate(ATTACKS.values()):
        # The marker is split, so that it stands in the output alone.
        command = f"{attack or ':'}; for one in $SECRETS; do cat $one; done"
        words = f"timeout -s KILL 10 unshare -m sh -c {shlex.quote(command)} </dev/null 2>&1"
        lines += [
            f"echo {_BEGIN}''-{number}-",
            f"{words} | tr -cd '\\12\\40-\\176' | head -c 200000",
            "echo",
        ]
    lines += ["echo IN''DEED", "cat /proc/self/mountinfo", "exit 3", ""]
    source = directory / "source"
    source.mkdir()
    definition = source / "site.def"
    definition.write_text("\n".join(lines))
    text = str(definition)
    job = build_job(
        directory,
        text,
        path_digest(parse_source(text)),
        auth_file=str(auth / "auth.json"),
    )
    log = directory / "log"
    start(job, give(directory / "home"), log).wait()
    whole = log.read_text(errors="replace")
    assert "INDEED" in whole, whole[-3000:]
    parts = whole.partition("INDEED")[0].split(f"{_BEGIN}-")[1:]
    return dict(zip(ATTACKS, parts, strict=True))


@pytest.mark.parametrize("attack", ATTACKS)
def test_post_reads_nothing_that_is_hidden(said: dict[str, str], attack: str) -> None:
    assert SECRET not in said[attack]
