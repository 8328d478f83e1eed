"""Answers about a site: given in a file, found, or typed on a terminal; checked one by one."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ldap3.core.exceptions import LDAPException
from ldap3.utils.dn import parse_dn

from portal.catalog.definitions.document import DocumentError, read_document
from portal.errors import InvalidRequest

from .quoting import yaml

Value = str | bool | list[str]
SERVERS = ("none", "nginx", "apache", "caddy")


@dataclass(frozen=True)
class Question:
    """Question about a site. ``check`` returns the value or raises ValueError with the reason."""

    key: str
    words: str
    check: Callable[[Any], Any]
    default: Any = ""
    needed: bool = False
    when: str = ""  # asked only if the answer to this key is one

    def read(self, raw: object) -> Any:
        """Return the checked answer. Raises InvalidRequest that names the key."""
        try:
            value = self.check(raw)
        except ValueError as error:
            raise InvalidRequest(f"{self.key}: {error}.", field=self.key) from None
        return value


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"a text is needed, not {raw!r}")
    if raw and not raw.isprintable():
        raise ValueError(f"{raw!r} has a line break or another control character")
    return raw.strip()


def _matching(pattern: str, reason: str) -> Callable[[Any], str]:
    def check(raw: object) -> str:
        text = _text(raw)
        if text and not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not {reason}")
        return text

    return check


_account = _matching(
    r"[a-z_][a-z0-9_-]{0,30}", "an account's name: small letters, digits, '-' and '_'"
)
_group = _matching(
    r"[A-Za-z0-9_][A-Za-z0-9_. @\\-]{0,254}", "a group's name: letters, digits, '.', '-', '_', '@'"
)
_server = _matching("|".join(SERVERS), f"one of {', '.join(SERVERS)}")
_dns = _matching(
    r"(?=.{1,253}$)[a-zA-Z0-9]([a-zA-Z0-9-]{0,62}(?<!-))?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,62}(?<!-))?)*",
    "a host name such as portal.example.org",
)


def _path(raw: object) -> str:
    text = _text(raw)
    if text and not re.fullmatch(r"/[A-Za-z0-9_./+@,=:~ -]*", text):
        raise ValueError(
            f"{text!r} is not an absolute path of letters, digits, spaces and _./+@,=:~-"
        )
    if ".." in Path(text).parts:
        raise ValueError(f"{text!r} must not contain '..'")
    return str(Path(text)) if text else ""


def _bind(raw: object) -> str:
    text = _text(raw)
    path, colon, mode = text.rpartition(":")
    if colon and mode in ("ro", "rw"):
        return f"{_path(path)}:{mode}"
    return f"{_path(text)}:rw"


def _address(raw: object) -> str:
    text = _text(raw)
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return _dns(text)
    if found.is_loopback or found.is_unspecified:
        raise ValueError(f"{text} is an address that no node reaches")
    return text


def _uri(raw: object) -> str:
    text = _text(raw)
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("ldap", "ldaps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.path.strip("/") or parts.query or re.search(r"[\s'\"\\]", text):
        raise ValueError(f"{text!r} is not of the form ldaps://host[:port] or ldap://host[:port]")
    return text.rstrip("/")


def _dn(raw: object) -> str:
    text = _text(raw)
    try:
        if text:
            parse_dn(text)
    except LDAPException:
        raise ValueError(f"{text!r} is not a name such as ou=people,dc=example,dc=org") from None
    return text


def _template(raw: object) -> str:
    text = _text(raw)
    if text and text.count("{username}") != 1:
        raise ValueError(f"{text!r} must contain {{username}} once")
    return text


_attribute = _matching(r"[A-Za-z][A-Za-z0-9-]*", "an attribute of LDAP")


def _truth(raw: object) -> bool:
    words = {"yes": True, "true": True, "no": False, "false": False}
    if isinstance(raw, str) and raw.lower() in words:
        return words[raw.lower()]
    if not isinstance(raw, bool):
        raise ValueError(f"yes or no is needed, not {raw!r}")
    return raw


def _port(raw: object) -> str:
    text = str(raw) if isinstance(raw, int) and not isinstance(raw, bool) else _text(raw)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 65535:
        raise ValueError(f"{text!r} is not a port, 1 to 65535")
    return str(int(text))


def _list(check: Callable[[Any], str], least: int = 0, exactly: int = 0) -> Callable[[Any], Any]:
    def read(raw: object) -> list[str]:
        if isinstance(raw, str):  # typed on one line; DNs have commas, so these are separated by ;
            raw = [part for part in re.split(r"\s*;\s*", raw.strip()) if part]
        if not isinstance(raw, list):
            raise ValueError(f"a list is needed, not {raw!r}")
        values = [value for value in map(check, raw) if value]
        if exactly and (len(values) != exactly or len(set(values)) != exactly):
            raise ValueError(f"{exactly} different values are needed, not {len(values)}")
        if len(values) < least:
            raise ValueError("at least one is needed")
        return values

    return read


PORTS = ["8000", "8001", "8081", "8010"]

QUESTIONS = {
    question.key: question
    for question in (
        Question("account", "Account of the Hub, made if it is missing", _account, "portal", True),
        Question("users_group", "Unix group of the users who may have sessions", _group, "", True),
        Question("slurm_bin", "Folder of Slurm's commands", _path, "/usr/bin", True),
        Question("slurm_conf", "slurm.conf, if Slurm does not find it by itself", _path),
        Question("operator", "Make the Hub's account Operator in slurmdbd", _truth, False),
        Question("hub_address", "Address of this machine that the nodes reach", _address, "", True),
        Question(
            "ports",
            "Ports of the proxy, its API, the Hub and the web service",
            _list(_port, exactly=4),
            PORTS,
        ),
        Question("log_directory", "Folder for job logs, shared with the nodes", _path, "", True),
        Question("binds", "Folders for containers, PATH or PATH:ro", _list(_bind), []),
        Question("apptainer", "Apptainer on the nodes", _path),
        Question("ldap_servers", "LDAP servers", _list(_uri, least=1), [], True),
        Question("ldap_ca_file", "Authorities of their certificates, if not the system's", _path),
        Question("ldap_people_base", "Base DN of users", _dn, "", True),
        Question("ldap_groups_base", "Base DN of groups", _dn),
        Question("ldap_user_attribute", "Attribute of the user name", _attribute, "uid"),
        Question("ldap_bind_dn", "DN of the search account, if there is one", _dn),
        Question(
            "ldap_password_file", "File with its password, mode 0600", _path, when="ldap_bind_dn"
        ),
        Question("ldap_bind_names", "Names to bind as, with {username}", _list(_template), []),
        Question("ldap_anonymous", "Search without an account", _truth, False),
        Question("admin_groups", "LDAP groups of the portal's admins", _list(_text), []),
        Question("allowed_groups", "LDAP groups that may sign in (none: all)", _list(_text), []),
        Question("https", "Web server for HTTPS: none, nginx, apache or caddy", _server, "none"),
        Question("host_name", "Name of the portal for browsers", _dns, when="https"),
        Question("certificate", "Its certificate with the chain", _path, when="https"),
        Question("certificate_key", "The certificate's key", _path, when="https"),
        Question(
            "session_hosts",
            "Hosts of their own for sessions, *.NAME: needs DNS and certificate for them",
            _truth,
            False,
            when="https",
        ),
        Question("environment", "First environment: an image, or a venv on the nodes", _path),
        Question("test_user", "User for a test session at the end", _account),
    )
}


def read_answers(file: Path) -> dict[str, Any]:
    """Return the checked answers of a file. Raises InvalidRequest."""
    try:
        data = read_document(file.read_bytes()).data
    except DocumentError as error:
        raise InvalidRequest(f"{file}, line {error.line or 1}: {error.message}.") from None
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.") from None
    unknown = sorted(str(key) for key in {*data} - {*QUESTIONS})
    if unknown:
        raise InvalidRequest(
            f"{file}: {unknown[0]!r} is unknown. `portal setup --print-answers` prints all keys.",
            field=unknown[0],
        )
    return {key: QUESTIONS[key].read(value) for key, value in data.items() if value is not None}


def complete(given: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer to each question: given, found or the default. Raises InvalidRequest for the
    first that is needed and missing, and for answers that contradict each other."""
    answers = {
        key: given.get(key, found.get(key, question.default)) for key, question in QUESTIONS.items()
    }
    for key, question in QUESTIONS.items():
        if question.needed and not answers[key]:
            raise InvalidRequest(f"{key} is missing: {question.words.lower()}.", field=key)
    if answers["https"] != "none":
        for key in ("host_name", "certificate", "certificate_key"):
            if not answers[key] and not (answers["https"] == "caddy" and key != "host_name"):
                raise InvalidRequest(f"{key} is missing: {answers['https']} needs it.", field=key)
    if not (answers["ldap_bind_dn"] or answers["ldap_bind_names"] or answers["ldap_anonymous"]):
        raise InvalidRequest(
            "ldap_bind_dn is missing: users are searched with this account. Without one, set "
            "ldap_bind_names, or ldap_anonymous: true.",
            field="ldap_bind_dn",
        )
    if answers["account"] in ("root", answers["test_user"]):
        raise InvalidRequest("account: the Hub needs an account of its own.", field="account")
    return answers


def as_file(found: Mapping[str, Any]) -> str:
    """Return ``found`` as a file of answers; what was not found stands there as a comment."""
    lines = ["# Answers for `portal setup --answers=FILE`."]
    for key, question in QUESTIONS.items():
        value = found.get(key, question.default)
        lines += ["", f"# {question.words}."]
        if isinstance(value, bool):
            lines.append(f"{key}: {str(value).lower()}")
        elif isinstance(value, list):
            lines.append(f"{key}: [{', '.join(yaml(item) for item in value)}]")
        elif value:
            lines.append(f"{key}: {yaml(value)}")
        else:
            lines.append(f"# {key}: {'(needed)' if question.needed else ''}".rstrip())
    return "\n".join(lines) + "\n"
