"""Descriptions of environments: Markdown of admins and owners, as HTML for a page and as a line of
text for a tile.

The output holds no markup of the author's: CommonMark and tables, without raw HTML and without
images (https://markdown-it-py.readthedocs.io/en/latest/security.html). Links lead to http,
https and mail addresses, or to the portal itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from portal.errors import InvalidRequest
from portal.models.catalog.environment import MAX_DESCRIPTION

_SUMMARY = 200  # characters of a tile's text
_NESTING = 12  # levels of nested quotes and lists
_FIRST_HEADING = 3  # the page's own headings are those above
_CELLS = 4000  # a short row of a wide table is filled up: few letters could become a million cells
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_FINE = re.compile(r"^(?:https?://|mailto:)", re.IGNORECASE)
# A browser reads "//host" and "/\host" as another host, and passes over white space.
_OUTSIDE = re.compile(r"^[/\\]{2}|[\x00-\x20\x7f]")


def may_link(address: str) -> bool:
    """Return True if a description may link there: http, https, mailto, or a path of this site."""
    if _SCHEME.match(address):
        return bool(_FINE.match(address))
    return not _OUTSIDE.search(address)


class _Reader(MarkdownIt):
    """CommonMark parser with the portal's own rule on links."""

    def validateLink(self, url: str) -> bool:
        return may_link(url)


def _reader(tables: bool) -> MarkdownIt:
    options = {"html": False, "linkify": False, "maxNesting": _NESTING}
    reader = _Reader("commonmark", options)
    reader.disable(["image", "html_block", "html_inline"])
    if tables:
        reader.enable("table")
    reader.add_render_rule("link_open", _link)
    for cell in ("th_open", "td_open"):
        reader.add_render_rule(cell, _cell)
    reader.add_render_rule("heading_open", _heading)
    reader.add_render_rule("heading_close", _heading)
    return reader


def _link(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "nofollow noopener noreferrer")
    return str(self.renderToken(tokens, at, options, env))


def _cell(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    # The alignment would be a style, which the pages' policy refuses.
    tokens[at].attrs.pop("style", None)
    return str(self.renderToken(tokens, at, options, env))


def _heading(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    token = tokens[at].copy()
    token.tag = f"h{min(6, int(token.tag[1]) + _FIRST_HEADING - 1)}"
    return str(self.renderToken([*tokens[:at], token, *tokens[at + 1 :]], at, options, env))


_READER, _PLAINER = _reader(tables=True), _reader(tables=False)


@lru_cache(maxsize=512)
def markdown_html(text: str) -> Markup:
    """Return the HTML of ``text``, safe to put into a page. Raises InvalidRequest if it is longer
    than ``MAX_DESCRIPTION`` characters."""
    if len(text) > MAX_DESCRIPTION:
        raise InvalidRequest(
            f"The description has {len(text):,} characters; the maximum is {MAX_DESCRIPTION:,}.",
            "description",
        )
    lines = text.splitlines()
    cells = len(lines) * max((line.count("|") for line in lines), default=0)
    reader = _READER if cells <= _CELLS else _PLAINER
    return Markup(reader.render(text))  # noqa: S704  the reader lets no markup through


@lru_cache(maxsize=2048)
def markdown_line(text: str) -> str:
    """Return the first paragraph of ``text`` as plain text on one line, at most 200 characters."""
    tokens = _READER.parse(text[:2000])
    for before, token in pairwise(tokens):
        if before.type == "paragraph_open" and token.type == "inline":
            return _shortened(" ".join(_words(token.children or ()).split()))
    return ""


def _words(tokens: Sequence[Token]) -> str:
    breaks = {"softbreak": " ", "hardbreak": " "}
    return "".join(breaks.get(token.type, token.content) for token in tokens)


def _shortened(text: str) -> str:
    if len(text) <= _SUMMARY:
        return text
    return text[: _SUMMARY - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"
