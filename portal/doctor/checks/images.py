"""Checks of the requirements of image builds and tests: folder, account, programs, wheel."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import stat
from pathlib import Path

from portal.images.registry.registry import Registries
from portal.images.settings import Images

from ..command import ask
from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site
from . import apptainer, storage

_HELP = "docs/how-to/images.md"
_ROOM, _LITTLE_ROOM = 100, 10  # GB; an NGC image is some 20, and a build needs three times that


def _images(site: Site) -> Images | None:
    """Return the settings; None if this site builds no images."""
    images = Images(config=site.config)
    if site.config.get("Images") or Path(images.directory).exists():
        return images
    return None


def _not_used() -> Result:
    return skipped("this site builds no images: c.Images.directory does not exist")


@check("images-folder", "Images are stored where all nodes can read them")
async def folder(site: Site) -> Result:
    images = _images(site)
    if images is None:
        return _not_used()
    remote = await storage.remote_nodes(site)
    return await asyncio.to_thread(_folders, images, site, remote)


def _folders(images: Images, site: Site, remote: bool) -> Result:
    path, logs = Path(images.directory), Path(images.log_directory)
    account = images.service_account or site.account
    make = f"install -d -o {account} -g {account} -m 2775 {path}"
    if not path.is_dir():
        return failure(f"{path} (c.Images.directory) does not exist", make)
    status = path.stat()
    results = [ok(f"{path}, {storage.file_system(path)}")]
    try:
        owner = pwd.getpwnam(account).pw_uid
    except KeyError:
        owner = -1  # reported by another check
    if owner not in (-1, status.st_uid) or not status.st_mode & stat.S_IWUSR:
        results.append(failure(f"'{account}', which builds images, does not own {path}", make))
    if status.st_mode & stat.S_IWOTH:
        message = f"everyone can write to {path}, and could replace images"
        results.append(failure(message, f"chmod o-w {path}"))
    if (status.st_mode & 0o005) != 0o005:
        message = f"users cannot read {path}, so no session can start"
        results.append(failure(message, f"chmod o+rx {path}"))
    if not site.is_root and not os.access(path, os.W_OK):
        results.append(
            warning(
                f"'{site.account}' cannot write to {path}, so builds cannot use passwords or "
                "mirrors of registries",
                f"usermod -aG {account} {site.account}; chmod 2775 {path}; restart the Hub.",
            )
        )
    results += _room(path)
    if remote and storage.is_local(path):
        results.append(
            warning(
                f"{path} is on {storage.file_system(path)}, which the nodes cannot read",
                "Set c.Images.directory to a folder that the nodes share with the Hub.",
            )
        )
    if not logs.is_dir() or (not site.is_root and not os.access(logs, os.W_OK | os.X_OK)):
        results.append(
            failure(
                f"'{site.account}' cannot create logs of builds in {logs} (c.Images.log_directory)",
                f"install -d -o {site.account} -g {site.account} -m 0711 {logs}",
            )
        )
    return worst(results)


def _room(path: Path) -> list[Result]:
    free = shutil.disk_usage(path).free / 1e9
    if free >= _ROOM:
        return [ok(f"{free:.0f} GB free")]
    advice = "Free up space: `portal images prune --dry-run` lists unused images."
    message = f"only {free:.0f} GB are free in {path}"
    return [failure(message, advice) if free < _LITTLE_ROOM else warning(message, advice)]


@check("images-account", "Image builds can be submitted")
async def account(site: Site) -> Result:
    images = _images(site)
    if images is None:
        return _not_used()
    name = images.service_account or site.account
    try:
        pwd.getpwnam(name)
    except KeyError:
        return failure(
            f"account '{name}' (c.Images.service_account) does not exist on this machine",
            f"useradd --system --user-group {name}, here and on the nodes. {_HELP}",
        )
    results = [ok(f"as '{name}'")]
    if name == site.account:
        results.append(
            warning(
                f"builds and tests run as '{name}', the service's own account, so the code of "
                "anyone who manages environments runs with all rights of the service",
                f"Create a separate account and set c.Images.service_account ({_HELP}).",
            )
        )
    if name != site.account and not site.is_root:
        prefix = [word.replace("{user}", name) for word in site.runner.sudo]
        for command in ("sbatch", "scancel"):
            answer = await ask([*prefix, site.runner.path(command), "--version"])
            if answer.status:
                results.append(
                    failure(
                        f"{command} as {name}: {answer.words}",
                        f"Add '{name}' to Runas_Alias of /etc/sudoers.d/portal (deploy/sudoers).",
                    )
                )
    elif name != site.account:
        message = "root needs no sudo rule, so the Hub's was not checked"
        advice = "Run this command as the Hub's account: sudo -u portal portal doctor"
        results.append(skipped(message, advice))
    results += await _association(site, name, images.slurm_account)
    return worst(results)


async def _association(site: Site, name: str, wanted: str) -> list[Result]:
    known = await site.cluster.associations(name)
    if known is None:
        return []  # Slurm keeps no accounts
    accounts = sorted({association.account for association in known})
    if wanted in accounts or (accounts and not wanted):
        return [ok(f"Slurm account {wanted or ', '.join(accounts)}")]
    where = f"the account '{wanted}' (c.Images.slurm_account)" if wanted else "any account"
    return [
        failure(
            f"'{name}' has no association with {where} in Slurm, so it cannot submit jobs",
            f"sacctmgr add user {name} account={wanted or 'ACCOUNT'}",
        )
    ]


@check("images-programs", "The programs that build images are installed")
async def programs(site: Site) -> Result:
    images = _images(site)
    if images is None:
        return _not_used()
    name = Registries(config=site.config).skopeo
    answer = await ask([name, "--version"])
    if answer.status:
        result = failure(
            f"'{name}' does not run: {answer.words}",
            "Install skopeo on this machine, or set c.Registries.skopeo. Without it, tags cannot "
            "be looked up.",
        )
    else:
        result = ok(answer.stdout.strip())
    return worst([result, await apptainer.examine(images.apptainer)])


@check("images-keys", "Sessions can verify signatures of images")
async def keys(site: Site) -> Result:
    images = _images(site)
    if images is None:
        return _not_used()
    if not images.verify:
        return ok("signatures are not required (c.Images.verify)")
    return await asyncio.to_thread(_keys, images.public_keys, images.keyring)


def _keys(file: str, keyring: str) -> Result:
    advice = (
        f"Copy {keyring or '~/.apptainer/keys'}/pgp-public of the builds' account to a file on the "
        f"nodes that everyone can read, and set c.Images.public_keys to it ({_HELP})."
    )
    if not file:
        return failure(
            "c.Images.verify is on but c.Images.public_keys is empty, so sessions start only for "
            "users who have imported the keys",
            advice,
        )
    path = Path(file)
    try:
        status = path.stat()
    except OSError as error:
        return failure(f"{path} (c.Images.public_keys) cannot be read: {error.strerror}", advice)
    if not path.is_file() or not status.st_size:
        return failure(f"{path} (c.Images.public_keys) is empty, or not a file", advice)
    closed = [part for part in path.parents if not part.stat().st_mode & stat.S_IXOTH]
    if closed or not status.st_mode & stat.S_IROTH:
        where = closed[-1] if closed else path
        return failure(
            f"users cannot access {where}, but their sessions must read {path}",
            f"chmod o+{'x' if closed else 'r'} {where}",
        )
    if status.st_mode & stat.S_IWOTH:
        return failure(
            f"everyone can change {path}, and could add keys of their own", f"chmod o-w {path}"
        )
    return ok(str(path))


@check("images-wheel", "The wheel of portal-session is available to builds")
async def wheel(site: Site) -> Result:
    images = _images(site)
    if images is None:
        return _not_used()
    return await asyncio.to_thread(_wheel, Path(images.wheels))


def _wheel(path: Path) -> Result:
    advice = (
        f"Build it from kernels/ (pip wheel --no-deps -w {path} kernels/) into {path} "
        "(c.Images.wheels), which the nodes must be able to read."
    )
    try:
        wheels = sorted(path.glob("portal_session-*.whl"))
        closed = [file for file in wheels if not file.stat().st_mode & stat.S_IROTH]
    except OSError as error:
        return failure(f"{path} cannot be read: {error.strerror}", advice)
    if not wheels:
        return failure(f"{path} has no wheel of portal-session", advice)
    if closed:
        return failure(f"the builds' account cannot read {closed[0]}", f"chmod 0644 {closed[0]}")
    return ok(wheels[-1].name)
