"""Menus "⋯" of pages."""

from __future__ import annotations

from typing import Any


def choose_action(page: Any, of: str, name: str) -> None:
    """Press an entry of the menu with the actions for ``of``."""
    page.get_by_role("button", name=f"More actions for {of}", exact=True).click()
    menu = page.locator(".dropdown-menu.show")
    menu.get_by_role("button", name=name).or_(menu.get_by_role("link", name=name)).click()
