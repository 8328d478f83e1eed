"""Encryption of secrets: a wrong passphrase, another name and each changed byte are noticed."""

from __future__ import annotations

import pytest

from portal.backup.sealing import Seal
from portal.errors import InvalidRequest

SALT = b"0123456789abcdef"
SEAL = Seal("correct horse battery", SALT)


def test_what_is_closed_can_be_opened() -> None:
    sealed = SEAL.close("a", b"secret")
    assert b"secret" not in sealed
    assert Seal("correct horse battery", SALT).open("a", sealed) == b"secret"
    assert SEAL.close("a", b"secret") != sealed


@pytest.mark.parametrize(
    "other", [Seal("correct horse batterY", SALT), Seal("correct horse battery", SALT[::-1])]
)
def test_another_passphrase_or_backup_does_not_open_it(other: Seal) -> None:
    with pytest.raises(InvalidRequest, match="passphrase is not the one"):
        other.open("a", SEAL.close("a", b"secret"))


def test_changes_are_noticed() -> None:
    sealed = SEAL.close("a", b"secret")
    with pytest.raises(InvalidRequest):
        SEAL.open("b", sealed)
    for place in range(len(sealed)):
        with pytest.raises(InvalidRequest):
            SEAL.open("a", sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
        with pytest.raises(InvalidRequest):
            SEAL.open("a", sealed[:place])
