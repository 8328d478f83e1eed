"""Encryption of a backup's secrets with a passphrase.

scrypt (RFC 7914) makes the key from the passphrase, with 128 MiB of memory for each guess;
AES-256-GCM encrypts each file, and authenticates its name with it, so that no two can be exchanged.
Both are in ``cryptography``, which the portal and JupyterHub require already; its Fernet, which the
portal uses for passwords of registries, has a shorter key and authenticates no name.
"""

from __future__ import annotations

import getpass
import os
import stat
import sys
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from portal.errors import InvalidRequest

SALT = 16  # bytes
_NONCE = 12  # bytes; random: each backup has a key of its own (NIST SP 800-38D, 8.2.2)
_SHORTEST = 12  # characters of a passphrase
_LONGEST = 4096  # bytes of its file


class Seal:
    """Cipher with the key of one backup, which is made of the passphrase and the backup's salt."""

    def __init__(self, passphrase: str, salt: bytes) -> None:
        key = Scrypt(salt=salt, length=32, n=2**17, r=8, p=1).derive(passphrase.encode())
        self._cipher = AESGCM(key)

    def close(self, name: str, content: bytes) -> bytes:
        """Encrypt the content of the member ``name``."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, content, name.encode())

    def open(self, name: str, sealed: bytes) -> bytes:
        """Decrypt the member ``name``. Raises InvalidRequest for another passphrase."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], name.encode())
        except (InvalidTag, ValueError):
            raise InvalidRequest(
                "The passphrase is not the one that this backup was made with, or the backup was "
                "changed. Nothing was restored. Try the passphrase of that time."
            ) from None


def read_passphrase(path: Path) -> str:
    """Return the passphrase in a file, without the line's end. Raises InvalidRequest."""

    def wrong(problem: str) -> InvalidRequest:
        return InvalidRequest(f"The passphrase file {path} {problem}")

    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise wrong(f"cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        raise wrong("is not a file.")
    if mode & 0o027:  # the group's bit is the mask of an ACL for a credential of systemd's
        raise wrong(f"can be read or changed by others: run chmod 0600 {path}.")
    try:
        passphrase = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise wrong("is not UTF-8 text.") from None
    if len(data) > _LONGEST or "\n" in passphrase or "\0" in passphrase:
        raise wrong("must contain only the passphrase, on one line.")
    return checked(passphrase)


def checked(passphrase: str) -> str:
    """Return the passphrase if it is long enough. Raises InvalidRequest."""
    if len(passphrase) < _SHORTEST:
        raise InvalidRequest(
            f"A passphrase has at least {_SHORTEST} characters: a backup can be guessed at for as "
            "long as it exists."
        )
    return passphrase


def asked(question: str, *, twice: bool) -> str:
    """Return a passphrase from the terminal; "" if there is none, or nothing is typed.

    Raises InvalidRequest for two different ones.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return ""
    first = getpass.getpass(question)
    if first and twice and getpass.getpass("The same again: ") != first:
        raise InvalidRequest("The two passphrases differ. Nothing was done.")
    return checked(first) if first else ""
