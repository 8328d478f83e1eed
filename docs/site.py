"""Site of the documentation, built from README.md and docs/ (`make site`): pages, navigation and a
search that work without a server and without a network.

python -m docs.site FOLDER      write it there

The navigation is the list in README.md's section "Documentation". Sphinx with MyST reads the pages
as CommonMark, as they stand. Sources: https://www.sphinx-doc.org, https://myst-parser.readthedocs.io.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import docutils_namespace

import portal

ROOT = Path(__file__).resolve().parent.parent
FRONT = "README"
_SETTINGS: dict[str, Any] = {
    "project": "Data Scientist Portal",
    "release": portal.__version__,
    "html_title": f"Data Scientist Portal {portal.__version__}",
    "root_doc": FRONT,
    "extensions": ["myst_parser"],
    "include_patterns": ["*.md", "docs/**/*.md", "docs/*.md"],
    "myst_heading_anchors": 4,
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_copyright": False,
    "html_show_sphinx": False,
    "language": "en",
}


def build(out: Path, root: Path = ROOT) -> None:
    """Build the site of the documents in ``root`` into the folder ``out``, which is made anew.
    Raises SphinxError for a page that is not in the navigation, and for a link to nothing."""
    shutil.rmtree(out, ignore_errors=True)
    with docutils_namespace():  # what one build registers is not there in the next
        app = Sphinx(
            srcdir=root,
            confdir=None,
            outdir=out,
            doctreedir=out / ".doctrees",
            buildername="html",
            confoverrides=_SETTINGS,
            status=None,
            warningiserror=True,
            exception_on_warning=True,
        )
        app.connect("source-read", _add_navigation)
        app.build()
    for rest in (".doctrees", "_sources"):
        shutil.rmtree(out / rest, ignore_errors=True)
    shutil.copytree(root / "docs" / "images", out / "docs" / "images", dirs_exist_ok=True)
    shutil.copyfile(out / f"{FRONT}.html", out / "index.html")


def navigation(readme: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the groups of README.md's list: each with the titles and paths of its pages."""
    listed = readme.partition("\n## Documentation\n")[2]
    groups = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", listed, re.MULTILINE)
    return [(group, re.findall(r"\[([^]]+)\]\(([^)#]+\.md)\)", links)) for group, links in groups]


def _add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add what the sidebar lists to the front page."""
    if page == FRONT:
        for group, links in navigation(source[0]):
            entries = "\n".join(
                f"{title[0].upper()}{title[1:]} <{path.removesuffix('.md')}>"
                for title, path in links
            )
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {group}\n\n{entries}\n```\n"


def main() -> None:
    """Build the site into the folder that the command line names."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        build(Path(sys.argv[1]).resolve())
    except SphinxError as error:
        sys.exit(f"site: {error}")


if __name__ == "__main__":
    main()
