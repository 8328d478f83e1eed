"""Answers to binds, and what they say beyond yes and no."""

from __future__ import annotations

import pytest

from portal.directory.refusal import POLICY, refusal_of

_AD = "80090308: LdapErr: DSID-0C090439, comment: AcceptSecurityContext error, data {}, v4563\0"
_EXPIRED = "2.16.840.1.113730.3.4.4"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("530", "no login at this hour"),
        ("531", "no login from here"),
        ("532", "the password has expired"),
        ("533", "the account is disabled"),
        ("701", "the account has expired"),
        ("773", "the password must be changed"),
    ],
)
def test_active_directorys_codes_of_which_a_person_is_told(code: str, reason: str) -> None:
    refusal = refusal_of({"message": _AD.format(code)})
    assert refusal and refusal.sentence and refusal.reason == reason


def test_active_directorys_codes_of_which_nobody_is_told() -> None:
    locked = refusal_of({"message": _AD.format("775")})
    assert locked and not locked.sentence and locked.reason == "the account is locked"
    for code in ("525", "52e", "fffffffff"):
        refusal = refusal_of({"message": _AD.format(code)})
        assert not (refusal and (refusal.reason or refusal.sentence)), code


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x30\x03\x81\x01\x00", "the password has expired"),
        (b"\x30\x03\x81\x01\x01", "the account is locked"),
        (b"\x30\x03\x81\x01\x02", "the password must be changed"),
        (b"\x30\x08\xa0\x03\x80\x01\x05\x81\x01\x02", "the password must be changed"),
        (b"\x30\x05\xa0\x03\x80\x01\x05", ""),  # a warning: it expires soon
        (b"\x30\x00", ""),
        (b"", ""),
        (b"\x30\x03\x81\x7f\x02", ""),
        (b"\xff" * 40, ""),
    ],
)
def test_the_password_policy_control(value: bytes, reason: str) -> None:
    refusal = refusal_of({"controls": {POLICY: {"value": value}, _EXPIRED: {"value": b"0"}}})
    assert (refusal.reason if refusal else "") == reason


def test_the_older_control_of_389_ds() -> None:
    refusal = refusal_of({"message": "", "controls": {_EXPIRED: {"value": b"0"}}})
    assert refusal and refusal.reason == "the password must be changed"
    assert refusal_of({"message": "", "controls": None}) is None
