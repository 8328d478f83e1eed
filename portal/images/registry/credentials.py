"""Passwords of registries: encrypted in the database, or in a file that the site maintains.

Fernet is AES-128 in CBC mode with an HMAC (https://github.com/fernet/spec): changes are detected.
The key is a file of the service's account; the database alone gives no password away.
"""

from __future__ import annotations

import hmac
import os
import stat
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from traitlets import Unicode
from traitlets.config import LoggingConfigurable

from portal.errors import ConfigurationError, InvalidRequest
from portal.models.catalog.catalog import StoredRegistry
from portal.setting import setting

_LONGEST = 4096  # bytes of a password


class Login:
    """User and password for one registry. Its repr holds no password."""

    __slots__ = ("password", "username")

    def __init__(self, username: str, password: str) -> None:
        self.username = username
        self.password = password

    def __repr__(self) -> str:
        return f"Login({self.username!r}, …)"


class Secrets(LoggingConfigurable):
    """Passwords: encryption, and reading of those in files."""

    key_file = setting(
        Unicode("registry-key"),
        """File of the key that encrypts registry passwords in the database. If it is missing, the
        service creates it with mode 0600. A relative path is resolved from the directory in which
        the Hub runs. Keep a backup, separate from that of the database: without the key, the
        passwords must be entered again.""",
        'c.Secrets.key_file = "/etc/data-scientist-portal/registry-key"',
    ).tag(backup="secret")

    password_directory = setting(
        Unicode("/etc/data-scientist-portal/registries"),
        """Directory of the files that registries may name as ``password_file``. No other file is
        read, so that other secrets of this machine cannot be sent to a registry.""",
        'c.Secrets.password_directory = "/run/credentials/jupyterhub.service"',
    ).tag(backup="secret")

    def encrypt(self, password: str) -> str:
        """Encrypt a password for the database; empty if it is empty. Raises ConfigurationError."""
        if not password:
            return ""
        return Fernet(self._key(make=True)).encrypt(password.encode()).decode()

    def decrypt(self, stored: StoredRegistry) -> str:
        """Return the password. Raises InvalidRequest (``password``) if the key is not the one that
        it was encrypted with, ConfigurationError."""
        return self.decrypted(stored.secret, f"the password of '{stored.registry.host}'")

    def decrypted(self, secret: str, what: str) -> str:
        """Return what was encrypted, ``what`` in words; as `decrypt`."""
        if not secret:
            return ""
        again = f"enter {what} again, or restore the key from its backup."
        if not Path(self.key_file).exists():
            message = f"The key {self.key_file} (c.Secrets.key_file) is missing: {again}"
            raise InvalidRequest(message, "password")
        try:
            return Fernet(self._key(make=False)).decrypt(secret.encode()).decode()
        except (InvalidToken, ValueError):
            message = f"The key {self.key_file} has changed since it was stored: {again}"
            raise InvalidRequest(message, "password") from None

    def login(self, stored: StoredRegistry) -> Login | None:
        """Return the user and the password of a registry; None if it has none.

        Raises InvalidRequest, ConfigurationError, with a sentence and without the password.
        """
        registry = stored.registry
        if registry.password_file:
            return Login(registry.username, self.read(registry.password_file))
        password = self.decrypt(stored)
        return Login(registry.username, password) if password else None

    def read(self, path: str) -> str:
        """Return the password in a file of ``password_directory``, without the line's end.

        The file must belong to this account or to root, and others must not be able to read or
        change it. Raises InvalidRequest (``password_file``).
        """
        file, folder = Path(path), Path(self.password_directory)

        def wrong(problem: str) -> InvalidRequest:
            return InvalidRequest(f"The password file {path} {problem}", "password_file")

        if file.parent != folder or file.name in ("", ".", ".."):
            raise wrong(f"is not in {folder} (c.Secrets.password_directory): move it there.")
        try:
            with open(file, "rb", opener=_not_through_links) as opened:  # Path.open has no opener
                status = os.fstat(opened.fileno())
                data = opened.read(_LONGEST + 1)
        except OSError as error:
            raise wrong(f"cannot be read: {error.strerror}.") from None
        if not stat.S_ISREG(status.st_mode):
            raise wrong("is not a file.")
        if status.st_uid not in (0, os.geteuid()):
            raise wrong("must belong to the service's account or to root: chown it.")
        if status.st_mode & 0o027:
            raise wrong("can be read or changed by others: chmod 0600 it.")
        try:
            password = data.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise wrong("is not UTF-8 text.") from None
        if not password or len(data) > _LONGEST or "\n" in password or "\0" in password:
            raise wrong("must contain only the password, on one line.")
        return password

    def compare(self, password: str, path: str) -> None:
        """Raise InvalidRequest (``password``) unless it is the one in the file, known only to
        those who may send it somewhere; and what `read` raises."""
        if not hmac.compare_digest(password.encode(), self.read(path).encode()):
            raise InvalidRequest(f"This is not the password in {path}.", "password")

    def _key(self, *, make: bool) -> bytes:
        """Return the key; make it if it is missing and ``make``. Raises ConfigurationError."""
        path = Path(self.key_file)
        try:
            if make and not path.exists():
                _new_file(path, Fernet.generate_key())
            mode = path.stat().st_mode
            key = path.read_bytes().strip()
        except OSError as error:
            raise ConfigurationError(
                f"The key {path} (c.Secrets.key_file) cannot be read or created: {error.strerror}."
            ) from None
        if mode & 0o077:
            raise ConfigurationError(
                f"Other users can read the key {path}. Run chmod 0600 on it, and enter the "
                "registry passwords again if another user may have read it."
            )
        try:
            Fernet(key)
        except ValueError:
            raise ConfigurationError(
                f"{path} (c.Secrets.key_file) contains no key. Restore it from its backup, or "
                "remove it and enter the registry passwords again."
            ) from None
        return key


def _new_file(path: Path, content: bytes) -> None:
    """Write a file that only this account can read, whole or not at all; a file that somebody else
    made meanwhile stays."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600)) as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    try:
        with suppress(FileExistsError):
            path.hardlink_to(new)
    finally:
        new.unlink()


def _not_through_links(path: str, flags: int) -> int:
    # O_NONBLOCK: a pipe in the file's place does not hold the service up.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
