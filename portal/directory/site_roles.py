"""Groups to which the site's configuration gives a role.

The Hub gives roles by the names of groups. The members of a space are in a group named after it,
and who leads it chooses both: such a group must not be one that has a role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

_ADMINS = ("admin_groups", "instructor_groups")  # of whichever authenticator


def groups_with_roles(config: Config) -> frozenset[str]:
    """Return the groups whose members hold a role of the site's configuration."""
    roles = _plain(config.get("JupyterHub", {}).get("load_roles"), [])
    groups = {name for role in roles for name in _names(_part(role, "groups"))}
    groups |= set(_names(_plain(config.get("PortalAdmins", {}).get("groups"), set())))
    for section in config.values():
        if isinstance(section, Mapping):
            for key in _ADMINS:
                groups |= set(_names(_plain(section.get(key), set())))
    return frozenset(groups)


def _plain(value: Any, initial: Any) -> Any:
    """Return a setting's value; a file may have added to the default (traitlets' lazy values)."""
    if isinstance(value, LazyConfigValue):
        return value.get_value(initial)
    return initial if value is None else value


def _part(role: Any, key: str) -> Any:
    return role.get(key) if isinstance(role, Mapping) else None


def _names(groups: Any) -> Iterable[str]:
    """Return the names in a plain collection. The portal's own roles (spawners/config/roles.py)
    look up theirs in the Hub, from the settings that are read here too."""
    if not isinstance(groups, list | tuple | set | frozenset):
        return ()
    return [name for name in groups if isinstance(name, str)]
