"""Files for skopeo and Apptainer to reach a registry: mirrors, passwords, certificates.

Both take a private home folder with ``.config/containers/registries.conf``
(containers-registries.conf(5); Apptainer 1.4.5 reads it there or in /etc only), the option
``--authfile`` with a file as ``docker login`` writes it, and certificate authorities from the
folders in SSL_CERT_DIR, beside the machine's own (Go's crypto/x509). Apptainer ignores
containers-certs.d(5). A mirror is a host of its own: the password is kept under its name too.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates

from portal.errors import ConfigurationError
from portal.models.catalog.catalog import Registry

from .credentials import Login

_AUTHORITIES = "/etc/ssl/certs"  # the machine's, beside its bundle (Go's crypto/x509)
_MOST_AUTHORITIES = 4 * 1024 * 1024  # bytes; a distribution's bundle has some 220,000
_DOCKER_HUB = "https://index.docker.io/v1/"  # Docker's own name of docker.io in such files


class PullFiles(NamedTuple):
    """Paths for ImageJob: ``auth_file`` (empty: no password is needed) and ``registries_conf``
    (empty: no settings of registries are needed)."""

    auth_file: str = ""
    registries_conf: str = ""


def auth_text(logins: Mapping[str, Login]) -> str:
    """Return the auth file (containers-auth.json(5)) for ``logins``, host to user and password."""
    auths = {}
    for host, login in logins.items():
        encoded = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
        auths[host] = {"auth": encoded}
        if host == "docker.io":
            auths[_DOCKER_HUB] = {"auth": encoded}
    return json.dumps({"auths": auths})


def registries_text(registries: Iterable[Registry]) -> str:
    """Return registries.conf for ``registries``: their mirrors, and those asked without TLS."""
    parts = []
    for registry in registries:
        insecure = json.dumps(registry.insecure)
        if registry.mirror:
            parts.append(
                f'[[registry]]\nlocation = "{registry.host}"\n\n'
                f'[[registry.mirror]]\nlocation = "{registry.mirror}"\ninsecure = {insecure}\n'
            )
        elif registry.insecure:
            parts.append(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
    return "\n".join(parts)


def authorities_in(path: str) -> str:
    """Return the certificates in a PEM file, and nothing else of it: a private key beside them is
    not for the jobs. Blocks. Raises OSError, with words if there is none."""
    with open(path, "rb", opener=_at_once) as file:  # Path.open has no opener
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "It is not a file", path)
        raw = file.read(_MOST_AUTHORITIES + 1)
    try:
        certificates = load_pem_x509_certificates(raw[:_MOST_AUTHORITIES])
    except ValueError:
        raise OSError(errno.EINVAL, "It contains no certificate (PEM)", path) from None
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def write(
    folder: Path, logins: Mapping[str, Login], registries: Iterable[Registry], *, mode: int
) -> PullFiles:
    """Write the files into ``folder``, which exists, with ``mode`` (0o600, 0o640).

    Authorities go into the folder ``authorities`` beside them. Raises OSError.
    """
    registries = list(registries)
    auth, conf = folder / "auth.json", folder / "registries.conf"
    if logins:
        _write(auth, auth_text(logins), mode)
    files = [registry.ca_file for registry in registries if registry.ca_file]
    text = registries_text(registries)
    if files:
        authorities = folder / "authorities"
        authorities.mkdir()
        authorities.chmod(stat.S_IMODE(folder.stat().st_mode))
        for number, name in enumerate(files):
            _write(authorities / f"{number}.pem", authorities_in(name), mode)
    if text or files:
        _write(conf, text, mode)
    return PullFiles(str(auth) if logins else "", str(conf) if text or files else "")


def environment_of(files: PullFiles, home: Path) -> dict[str, str]:
    """Return variables for skopeo or Apptainer. ``home``: a private folder of this process's
    account, into which registries.conf is copied. The auth file goes into ``--authfile``.

    Variables XDG_… must not be set beside these.
    """
    variables = {"HOME": str(home)}
    if files.registries_conf:
        place = home / ".config/containers"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(files.registries_conf, place / "registries.conf")
        authorities = Path(files.registries_conf).with_name("authorities")
        if authorities.is_dir():
            variables["SSL_CERT_DIR"] = f"{authorities}:{_AUTHORITIES}"
    return variables


def hand_over(
    directory: Path, logins: Mapping[str, Login], registries: Iterable[Registry]
) -> PullFiles:
    """Write the files for a job of the account that ``directory`` (of images) belongs to, readable
    by its group and nobody else; `take_back` removes them when the job has ended.

    Raises ConfigurationError if that cannot be done here.
    """
    registries = list(registries)
    if not logins and not any(
        registry.mirror or registry.insecure or registry.ca_file for registry in registries
    ):
        return PullFiles()
    place = directory / ".auth"
    try:
        place.mkdir(exist_ok=True)
        if place.is_symlink():
            raise OSError(errno.ELOOP, f"'{place}' is a link", str(place))
        if place.stat().st_uid == os.geteuid():
            place.chmod(0o2750)
        folder = Path(tempfile.mkdtemp(dir=place))
        try:
            folder.chmod(0o2750)
            return write(folder, logins, registries, mode=0o640)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        raise ConfigurationError(
            f"The registry files of a build cannot be written below {directory}: "
            f"{error.strerror}. The service's account must be in the folder's group, and the "
            "folder must have mode 2775 (see `portal doctor`)."
        ) from None


def take_back(files: PullFiles) -> None:
    """Remove what `hand_over` wrote. Missing files are no error."""
    for name in files:
        if name:
            folder = Path(name).parent
            if folder.parent.name == ".auth":
                shutil.rmtree(folder, ignore_errors=True)


def sweep(directory: Path, keep: Iterable[PullFiles]) -> None:
    """Remove what earlier services left in ``directory`` (of images), except what live jobs need:
    ``keep``."""
    live = {Path(name).parent.name for files in keep for name in files if name}
    # The account of the builds owns ``directory``: a link in the place of the folder would have
    # this account remove what is its own.
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        place = os.open(directory / ".auth", flags)
        try:
            for name in os.listdir(place):  # noqa: PTH208  a descriptor, not a path
                if name not in live:
                    shutil.rmtree(name, ignore_errors=True, dir_fd=place)
        finally:
            os.close(place)


def _at_once(path: str, flags: int) -> int:
    # A pipe in the file's place does not hold the service up.
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _write(path: Path, text: str, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    path.chmod(mode)
