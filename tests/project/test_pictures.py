"""Pictures of the documents: a page shows only pictures that exist, and each is shown."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from docs.pictures.film import kept

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs/images"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SHOWN = re.compile(r"""(?:src|srcset)="([^"]+)"|\]\(([^)#]+\.(?:png|webm))\)""")
LARGEST = 3 * 2**20  # bytes of the film


def shown() -> set[Path]:
    """The files that pages show, of this repository."""
    return {
        (page.parent / (first or second)).resolve()
        for page in PAGES
        for first, second in SHOWN.findall(page.read_text())
    }


def seconds(data: bytes) -> float:
    """The length in the header of a WebM file whose unit is a millisecond (Matroska: Duration)."""
    start = data.index(b"\x44\x89") + 2
    length = data[start] & 0x7F
    return struct.unpack({4: ">f", 8: ">d"}[length], data[start + 1 : start + 1 + length])[0] / 1000


def test_each_picture_is_shown_and_exists() -> None:
    assert shown() == set(IMAGES.iterdir())


def test_each_dark_picture_has_a_light_one() -> None:
    names = {path.name for path in IMAGES.iterdir()}
    assert {name.replace("-dark.", "-light.") for name in names if "-dark." in name} == {
        name for name in names if "-light." in name
    }


def test_the_film_is_small_and_tells_its_length() -> None:
    data = (IMAGES / "tour.webm").read_bytes()
    assert len(data) <= LARGEST
    assert seconds(data) == pytest.approx(112, abs=13)


@pytest.mark.parametrize(
    ("passed", "remains"), [(0, 0), (1, 1), (1.5, 1.5), (5, 1.5), (8.5, 1.5), (9, 2), (10, 3)]
)
def test_the_middle_of_a_long_wait_is_cut(passed: float, remains: float) -> None:
    assert kept(passed, 10, 3) == remains


def test_what_is_short_is_kept() -> None:
    assert [kept(passed, 2, 3) for passed in (0, 1.9, 2)] == [0, 1.9, 2]
