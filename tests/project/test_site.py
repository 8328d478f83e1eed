"""The site of the documentation: all pages are in it, it needs no network, and a broken link ends
its build."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT
from sphinx.errors import SphinxError

from docs import site

README = (
    "# Front\n\n## Documentation\n\n- **Users**: [first](docs/first.md), [second](docs/second.md)\n"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    site.build(out)
    return out


def test_all_pages_are_there_and_in_the_navigation(built: Path) -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 50
    front = (built / "index.html").read_text()
    for page in pages:
        place = page.relative_to(ROOT).with_suffix(".html")
        assert (built / place).is_file(), place
        assert place.stem == "README" or f'href="{place}"' in front, place


def test_settings_and_words_of_pages_are_found(built: Path) -> None:
    index = (built / "searchindex.js").read_text()
    for setting in ("c.Projects.approval", "c.LDAPAuthenticator.servers"):
        assert setting in index, setting
    assert "grptresmin" in index


def test_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    texts = [path.read_text() for path in [*built.rglob("*.html"), *built.rglob("*.css")]]
    loaded = [
        address
        for text in texts
        for address in re.findall(
            r"""<(?:script|link|img|source|iframe)[^>]+?(?:src|href)="((?:https?:)?//[^"]+)|url\(["']?((?:https?:)?//[^)]+)""",
            text,
        )
    ]
    assert len(texts) > 50 and loaded == []


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("[Gone](gone.md)", "gone"),
        ("[Gone](first.md#gone)", "gone"),
        ("![Gone](gone.png)", "gone.png"),
        (None, "second"),
    ],
)
def test_a_link_to_nothing_ends_the_build(tmp_path: Path, second: str | None, words: str) -> None:
    folder = tmp_path / "root" / "docs"
    (folder / "images").mkdir(parents=True)
    (folder.parent / "README.md").write_text(README)
    (folder / "first.md").write_text("# First\n\n[Second](second.md)\n" if second else "# First\n")
    if second:
        (folder / "second.md").write_text(f"# Second\n\n{second}\n")
    with pytest.raises(SphinxError, match=words):
        site.build(tmp_path / "site", folder.parent)


def test_a_page_that_no_list_has_ends_the_build(tmp_path: Path) -> None:
    folder = tmp_path / "root" / "docs"
    (folder / "images").mkdir(parents=True)
    (folder.parent / "README.md").write_text(README)
    for name in ("first", "second", "third"):
        (folder / f"{name}.md").write_text(f"# {name}\n")
    with pytest.raises(SphinxError, match="third"):
        site.build(tmp_path / "site", folder.parent)
