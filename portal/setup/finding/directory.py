"""LDAP servers as this machine asks them: from sssd's, nslcd's or ldap.conf's files."""

from __future__ import annotations

import configparser
import re
from typing import Any

from ..place import Place

_AD_NAMES = "sAMAccountName"


def find_directory(place: Place) -> tuple[dict[str, Any], str, str]:
    """Return answers about the directory, the search account's password, and the file."""
    for file, read in (
        ("/etc/sssd/sssd.conf", _sssd),
        ("/etc/nslcd.conf", _nslcd),
        ("/etc/ldap/ldap.conf", _ldap_conf),
        ("/etc/openldap/ldap.conf", _ldap_conf),
    ):
        try:
            text = place.path(file).read_text(errors="replace")
            answers, password = read(text)
        except (OSError, configparser.Error, ValueError):
            continue
        if answers.get("ldap_servers"):
            return answers, password, file
    return {}, "", ""


def _sssd(text: str) -> tuple[dict[str, Any], str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    for name in parser.sections():
        domain = parser[name]
        if not name.startswith("domain/") or domain.get("id_provider") not in ("ldap", "ad", "ipa"):
            continue
        active = domain["id_provider"] == "ad"
        uris = re.split(r"[,\s]+", domain.get("ldap_uri", "").strip())
        if active or not uris[0]:
            hosts = domain.get("ad_server" if active else "ipa_server", "").strip()
            uris = [f"ldaps://{host}" for host in re.split(r"[,\s]+", hosts) if host]
        realm = domain.get("ad_domain", domain.get("ipa_domain", name.removeprefix("domain/")))
        base = domain.get("ldap_search_base", "").partition("?")[0].strip()
        if not base and domain["id_provider"] != "ldap":
            base = ",".join(f"dc={part}" for part in realm.split("."))
        user_base = domain.get("ldap_user_search_base", base).partition("?")[0].strip()
        group_base = domain.get("ldap_group_search_base", base).partition("?")[0].strip()
        plain = domain.get("ldap_default_authtok_type", "password") == "password"
        return _answers(
            [uri for uri in uris if uri.startswith(("ldap://", "ldaps://"))],
            user_base,
            group_base,
            domain.get("ldap_default_bind_dn", ""),
            domain.get("ldap_tls_cacert", ""),
            attribute=_AD_NAMES if active else domain.get("ldap_user_name", "uid"),
        ), domain.get("ldap_default_authtok", "") if plain else ""
    return {}, ""


def _nslcd(text: str) -> tuple[dict[str, Any], str]:
    words = _words(text)
    bases = {"": "", "passwd": "", "group": ""}
    for value in words.get("base", []):
        parts = value.split(None, 1)
        if len(parts) == 2 and parts[0] in bases:
            bases[parts[0]] = parts[1]
        else:
            bases[""] = value
    return _answers(
        [uri for value in words.get("uri", []) for uri in value.split()],
        bases["passwd"] or bases[""],
        bases["group"] or bases[""],
        _last(words, "binddn"),
        _last(words, "tls_cacertfile"),
    ), _last(words, "bindpw")


def _ldap_conf(text: str) -> tuple[dict[str, Any], str]:
    words = _words(text)
    base = _last(words, "base")
    uris = _last(words, "uri").split()
    return _answers(uris, base, base, _last(words, "binddn"), _last(words, "tls_cacert")), ""


def _answers(
    uris: list[str], people: str, groups: str, bind: str, ca_file: str, attribute: str = "uid"
) -> dict[str, Any]:
    return {
        "ldap_servers": [uri.rstrip("/") for uri in uris],
        "ldap_people_base": people,
        "ldap_groups_base": groups,
        "ldap_bind_dn": bind,
        "ldap_ca_file": ca_file,
        "ldap_user_attribute": attribute,
    }


def _words(text: str) -> dict[str, list[str]]:
    """Return the values of each keyword, in small letters."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, *rest = line.split(None, 1)[:2] or [""]
        if key and not key.startswith("#"):
            found.setdefault(key.lower(), []).append("".join(rest).strip())
    return found


def _last(words: dict[str, list[str]], key: str) -> str:
    return words.get(key, [""])[-1]
