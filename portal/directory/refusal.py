"""Reasons why a directory refuses a login, for the log and in part for the person.

Reasons that imply a right password are shown to the person, who gave it. A reason that servers also
give after a wrong password, that the account is locked, is only logged.

Sources: Microsoft's LDAP bind errors (the ``data`` of AcceptSecurityContext), the password policy
control (draft-behera-ldap-password-policy-11, 6.2) of OpenLDAP and 389-ds, and the older control of
389-ds for expired passwords (2.16.840.1.113730.3.4.4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_ANSWER = (
    "The directory does not answer, so you cannot sign in at the moment. Running sessions "
    "continue. Try again in a few minutes."
)
POLICY = "1.3.6.1.4.1.42.2.27.8.5.1"  # requested with each bind
_EXPIRED = "2.16.840.1.113730.3.4.4"

_DATA = re.compile(r"AcceptSecurityContext error, data ([0-9a-f]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Refusal:
    """Refused login. ``reason``: for the log; ``sentence``: sentence for the person, "" if not
    told."""

    reason: str
    sentence: str = ""


_RIGHT = "Your password is correct, but "
_NEW = _RIGHT + "it must be changed first. Change it in the directory, then sign in here."
_ASK = " Ask an administrator of the directory."

MUST_CHANGE = Refusal("the password must be changed", _NEW)
PASSWORD_EXPIRED = Refusal("the password has expired", _NEW)
LOCKED = Refusal("the account is locked")
READS_NOTHING = Refusal(
    "the account can bind but not search, for example because the password must be changed",
    _RIGHT + "your account cannot read the directory. You may have to change your password first.",
)

_OF_ACTIVE_DIRECTORY = {
    0x530: Refusal(
        "no login at this hour",
        _RIGHT + "your account is not allowed to sign in at this hour." + _ASK,
    ),
    0x531: Refusal(
        "no login from here",
        _RIGHT + "your account is not allowed to sign in from this machine." + _ASK,
    ),
    0x532: PASSWORD_EXPIRED,
    0x533: Refusal("the account is disabled", _RIGHT + "your account is disabled." + _ASK),
    0x701: Refusal("the account has expired", _RIGHT + "your account has expired." + _ASK),
    0x773: MUST_CHANGE,
    0x775: LOCKED,
}
_OF_POLICY = {0: PASSWORD_EXPIRED, 1: LOCKED, 2: MUST_CHANGE}


def refusal_of(result: Mapping[str, Any]) -> Refusal | None:
    """Return the reason in a bind's result (of ldap3) beyond yes or no; None if there is none."""
    if match := _DATA.search(str(result.get("message") or "")):
        return _OF_ACTIVE_DIRECTORY.get(int(match[1], 16))
    controls = result.get("controls") or {}
    if POLICY in controls:
        error = _policy_error(_value(controls[POLICY]))
        return None if error is None else _OF_POLICY.get(error)
    if _EXPIRED in controls:
        return MUST_CHANGE
    return None


def _value(control: Mapping[str, Any]) -> bytes:
    value = control.get("value")
    return bytes(value) if isinstance(value, bytes | bytearray) else b""


def _policy_error(value: bytes) -> int | None:
    """Return ``error [1] ENUMERATED`` of a PasswordPolicyResponseValue in BER; None if it has none
    (``warning [0]`` alone) or is no such value."""
    if len(value) < 2 or value[0] != 0x30 or value[1] != len(value) - 2:
        return None
    rest = value[2:]
    while len(rest) >= 2 and len(rest) >= 2 + rest[1]:
        tag, length, content = rest[0], rest[1], rest[2 : 2 + rest[1]]
        if tag == 0x81 and length == 1:
            return content[0]
        rest = rest[2 + length :]
    return None
