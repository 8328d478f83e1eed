"""Contrast of the colours of templates/assets/tokens.css, by the formulas of WCAG 2.2."""

from __future__ import annotations

import re
from itertools import product

import pytest

from portal.paths import data_path

_SHEET = (data_path("templates") / "assets/tokens.css").read_text()
_GROUNDS = ("bg", "surface", "surface-2")
_INKS = ("text", "muted", "accent", "good", "warn", "bad", "idle")
_TINTED = ("accent", "good", "warn", "bad", "idle")

Colour = tuple[float, float, float]


def _theme(selector: str) -> dict[str, Colour]:
    block = re.search(rf"{re.escape(selector)} {{(.*?)}}", _SHEET, re.DOTALL)
    assert block, selector
    pairs = re.findall(r"--portal-([\w-]+): #([0-9a-f]{6});", block[1])
    return {name: _rgb(digits) for name, digits in pairs}


def _rgb(digits: str) -> Colour:
    red, green, blue = bytes.fromhex(digits)
    return red / 255, green / 255, blue / 255


def _luminance(colour: Colour) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: Colour, other: Colour) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _derived(theme: dict[str, Colour]) -> dict[str, Colour]:
    """Return the colours that the sheet makes with color-mix(in srgb, A %, B)."""
    pattern = (
        r"--portal-([\w-]+): color-mix\(in srgb, var\(--portal-([\w-]+)\) (\d+)%, "
        r"var\(--portal-([\w-]+)\)\);"
    )
    mixed = {}
    for name, first, percent, second in re.findall(pattern, _SHEET):
        share = int(percent) / 100
        red, green, blue = (
            a * share + b * (1 - share) for a, b in zip(theme[first], theme[second], strict=True)
        )
        mixed[name] = (red, green, blue)
    return mixed


@pytest.fixture(params=['[data-bs-theme="light"]', '[data-bs-theme="dark"]'])
def theme(request: pytest.FixtureRequest) -> dict[str, Colour]:
    colours = _theme(request.param)
    return {**colours, **_derived(colours)}


def test_text_can_be_read_on_each_ground(theme: dict[str, Colour]) -> None:
    low = {
        (ink, ground): round(_contrast(theme[ink], theme[ground]), 2)
        for ink, ground in product(_INKS, _GROUNDS)
        if _contrast(theme[ink], theme[ground]) < 4.5
    }
    assert not low


def test_text_can_be_read_on_tints(theme: dict[str, Colour]) -> None:
    pairs = [
        *((tone, f"{tone}-soft") for tone in _TINTED),
        *((ink, f"{tone}-soft") for ink, tone in product(("text", "muted", "accent"), _TINTED)),
        ("on-accent", "accent"),
        ("on-accent", "accent-strong"),
        ("surface", "bad"),
        ("surface", "muted"),
    ]
    low = {pair for pair in pairs if _contrast(theme[pair[0]], theme[pair[1]]) < 4.5}
    assert not low


def test_controls_and_focus_stand_out(theme: dict[str, Colour]) -> None:
    """3:1 for what is no text: edges of fields, the focus ring, dots of states."""
    pairs = product(("control", "accent", "good", "warn", "bad", "idle"), _GROUNDS[:2])
    low = {pair for pair in pairs if _contrast(theme[pair[0]], theme[pair[1]]) < 3}
    assert not low


def test_both_themes_have_the_same_tokens() -> None:
    light, dark = _theme('[data-bs-theme="light"]'), _theme('[data-bs-theme="dark"]')
    assert light.keys() == dark.keys()


def test_the_typeface_is_what_is_installed() -> None:
    sheet = (data_path("templates") / "assets/typeface.css").read_text()
    subsets = re.findall(r'^  \("([a-z-]+)", "U\+', sheet, re.MULTILINE)
    install = (data_path("deploy") / "install.sh").read_text()
    assert subsets == re.findall(r"files/inter-([a-z-]+)-wght-normal\.woff2", install)


def test_styles_take_their_colours_from_tokens() -> None:
    """A variable of the portal that a style or script uses is defined somewhere."""
    sheets = [
        *(data_path("templates") / "assets").glob("*.css"),
        *(data_path("static") / "css").glob("*.css"),
    ]
    text = "\n".join(path.read_text() for path in sheets)
    defined = set(re.findall(r"(?:^|[;{\s])(--portal-[\w-]+):", text))
    assert set(re.findall(r"var\((--portal-[\w-]+)", text)) <= defined
