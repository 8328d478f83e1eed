"""Answers about a site: given in a file, found, or typed on a terminal; checked one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.catalog.definitions.document import DocumentError, read_document
from portal.errors import InvalidRequest

from .quoting import yaml
from .values import (
    list_of,
    read_account,
    read_address,
    read_attribute,
    read_bind,
    read_dn,
    read_dns,
    read_group,
    read_path,
    read_port,
    read_server,
    read_template,
    read_text,
    read_truth,
    read_uri,
)


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


PORTS = ["8000", "8001", "8081", "8010"]

QUESTIONS = {
    question.key: question
    for question in (
        Question(
            "account", "Account of the Hub, made if it is missing", read_account, "portal", True
        ),
        Question(
            "users_group", "Unix group of the users who may have sessions", read_group, "", True
        ),
        Question("slurm_bin", "Folder of Slurm's commands", read_path, "/usr/bin", True),
        Question("slurm_conf", "slurm.conf, if Slurm does not find it by itself", read_path),
        Question("operator", "Make the Hub's account Operator in slurmdbd", read_truth, False),
        Question(
            "hub_address", "Address of this machine that the nodes reach", read_address, "", True
        ),
        Question(
            "ports",
            "Ports of the proxy, its API, the Hub and the web service",
            list_of(read_port, exactly=4),
            PORTS,
        ),
        Question(
            "log_directory", "Folder for job logs, shared with the nodes", read_path, "", True
        ),
        Question("binds", "Folders for containers, PATH or PATH:ro", list_of(read_bind), []),
        Question("apptainer", "Apptainer on the nodes", read_path),
        Question("ldap_servers", "LDAP servers", list_of(read_uri, least=1), [], True),
        Question(
            "ldap_ca_file", "Authorities of their certificates, if not the system's", read_path
        ),
        Question("ldap_people_base", "Base DN of users", read_dn, "", True),
        Question("ldap_groups_base", "Base DN of groups", read_dn),
        Question("ldap_user_attribute", "Attribute of the user name", read_attribute, "uid"),
        Question("ldap_bind_dn", "DN of the search account, if there is one", read_dn),
        Question(
            "ldap_password_file",
            "File with its password, mode 0600",
            read_path,
            when="ldap_bind_dn",
        ),
        Question(
            "ldap_bind_names", "Names to bind as, with {username}", list_of(read_template), []
        ),
        Question("ldap_anonymous", "Search without an account", read_truth, False),
        Question("admin_groups", "LDAP groups of the portal's admins", list_of(read_text), []),
        Question(
            "allowed_groups", "LDAP groups that may sign in (none: all)", list_of(read_text), []
        ),
        Question(
            "https", "Web server for HTTPS: none, nginx, apache or caddy", read_server, "none"
        ),
        Question("host_name", "Name of the portal for browsers", read_dns, when="https"),
        Question("certificate", "Its certificate with the chain", read_path, when="https"),
        Question("certificate_key", "The certificate's key", read_path, when="https"),
        Question(
            "session_hosts",
            "Hosts of their own for sessions, *.NAME: needs DNS and certificate for them",
            read_truth,
            False,
            when="https",
        ),
        Question("environment", "First environment: an image, or a venv on the nodes", read_path),
        Question("test_user", "User for a test session at the end", read_account),
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
