"""Descriptions of environments: what people write, and what those write who mean harm."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest

from portal.catalog.offers.markdown import markdown_html, markdown_line, may_link
from portal.errors import InvalidRequest
from portal.models.catalog.environment import MAX_DESCRIPTION

_TAGS = {
    *("p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "em", "strong", "code", "pre", "a", "br"),
    *("hr", "blockquote", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"href", "title", "rel", "class", "start"}


class Reader(HTMLParser):
    """Every tag of a page and every address in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag == "a":
            assert dict(attrs)["rel"] == "nofollow noopener noreferrer"


def test_what_an_admin_writes() -> None:
    html = markdown_html(
        "# PyTorch\n\nWith **CUDA** and `torch`; [NGC](https://catalog.ngc.nvidia.com).\n\n"
        "- one\n- [two](/services/portal/catalog)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "Ask [us](mailto:hpc@example.org)."
    )
    assert "<h3>PyTorch</h3>" in html  # below the page's own headings
    assert "<strong>CUDA</strong>" in html
    assert "<td>2</td>" in html
    assert Reader(html).links == [
        "https://catalog.ngc.nvidia.com",
        "/services/portal/catalog",
        "mailto:hpc@example.org",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "<iframe src='https://evil.example'></iframe>",
        "<svg/onload=alert(1)>",
        "</div></main><style>*{display:none}</style>",
        "![picture](https://evil.example/x.png)",
        "![picture](data:image/svg+xml;base64,PHN2Zz4=)",
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](&#106;avascript:alert(1))",
        "[a](java\tscript:alert(1))",
        "[a](<java\nscript:alert(1)>)",
        "[a](data:text/html,<script>alert(1)</script>)",
        "[a](vbscript:x) [b](file:///etc/passwd) [c](//evil.example) [d](/\\evil.example)",
        "<javascript:alert(1)>",
        "[r]: javascript:alert(1)\n\n[r]",
        '[a](https://x.example "\\" onmouseover=alert(1) x=\\"")',
        "```<script>\nalert(1)\n```",
        '```x" onload="alert(1)\n```',
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "| <script> |\n|--:|\n| <b onclick=x> |",
        "# <a href='javascript:x'>",
        "[![x](https://evil.example/p.png)](https://x.example)",
        "\u202e[a](https://x.example)\x00",
    ],
)
def test_no_markup_and_no_script_of_the_author(text: str) -> None:
    read = Reader(markdown_html(text))
    assert read.tags <= _TAGS
    assert read.attributes <= _ATTRIBUTES
    assert all(may_link(link) for link in read.links)
    assert not [link for link in read.links if re.match(r"(?i)(java|vb)?script:|data:|file:", link)]


@pytest.mark.parametrize(
    "address",
    [
        *("https://a.example/x?y#z", "http://a.example", "mailto:a@b.example"),
        *("/services/portal/catalog", "#packages", "other"),
    ],
)
def test_where_links_may_lead(address: str) -> None:
    assert may_link(address) is True


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "data:text/html,x", "ftp://a.example", "https:evil"),
        *("//evil.example", "/\\evil.example", "\\\\evil.example", "java\tscript:alert(1)"),
    ],
)
def test_where_links_may_not_lead(address: str) -> None:
    assert may_link(address) is False


_LONG = MAX_DESCRIPTION
_WIDE = "a|" * 100 + "\n" + "-|" * 100 + "\n" + "x\n" * 9000


@pytest.mark.parametrize(
    "text",
    [
        "[" * _LONG,
        "*a_ " * _LONG,
        "> " * _LONG,
        "- " * _LONG,
        "![" * _LONG,
        "[a](" * _LONG,
        "a**b" * _LONG,
        "`" * _LONG,
        "<" * _LONG,
        "a\n" * _LONG,
        _WIDE,
        "| a | b |\n|---|---|\n" + "| a | b |\n" * _LONG,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_what_is_made_to_be_slow(text: str) -> None:
    began = time.process_time()
    html = markdown_html(text[:_LONG])
    assert time.process_time() - began < 1.5
    assert len(html) < 30 * _LONG
    markdown_line(text)


def test_a_book_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="10,000,000 characters; the maximum is 20,000"):
        markdown_html("<script>" * 1_250_000)


def test_a_line_for_the_tile() -> None:
    assert markdown_line(
        "# Title\n\nPlain *and*\n`code`, [a link](https://x.example).\n\nMore."
    ) == ("Plain and code, a link.")
    assert markdown_line("") == ""
    assert markdown_line("<b>bold</b>") == "<b>bold</b>"  # the template escapes it
    long = markdown_line("word " * 100)
    assert len(long) <= 200 and long.endswith("word…")
