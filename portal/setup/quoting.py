"""Values of a site in the languages of its files: each is quoted where it leaves the answers."""

from __future__ import annotations

import re

from portal.errors import InvalidRequest


def python(value: object) -> str:
    """Return a text, a truth value or a list as a Python literal."""
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"' if text.isprintable() else ascii(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(python(item) for item in value)}]"
    return repr(value)


def sudoers(value: str) -> str:
    """Return a name or a path for sudoers(5), "Other special characters and reserved words"."""
    return re.sub(r'([\\,:=!()"#*?\[\] @])', r"\\\1", value)


def unit(value: str) -> str:
    """Return a program's path for a command line in a unit, whose first word takes no variables:
    systemd.service(5), "Command lines"."""
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return text if re.fullmatch(r"[^\s'\";]+", text) and text == value else f'"{text}"'


def server(value: str) -> str:
    """Return an argument for nginx, Apache or Caddy.

    None of the three can write every text: nginx and Apache put variables in the place of $NAME and
    ${NAME}, and Caddy in that of {NAME}, and have no escape for it. Raises InvalidRequest.
    """
    if re.search(r"[${}%\\`\"']", value) or not value.isprintable():
        raise InvalidRequest(
            f"{value!r} has a character that a web server's configuration cannot hold. Give the "
            "file a name of letters, digits, '.', '-', '_' and '/'."
        )
    return f'"{value}"' if re.search(r"[\s;#]", value) else value


def yaml(value: str) -> str:
    """Return a text as a double-quoted scalar of YAML."""
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
