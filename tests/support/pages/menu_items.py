"""Items of the menu "⋯", which has the actions of a view besides its main one."""

from __future__ import annotations

import re
from typing import Any


def menu_item(place: Any, name: str, role: str = "button") -> Any:
    """Open the first menu in ``place``, which is a page or a part of it; return its item."""
    place.get_by_role("button", name=re.compile("^More actions")).first.click()
    return place.get_by_role(role, name=re.compile(f"^{re.escape(name)}")).first
