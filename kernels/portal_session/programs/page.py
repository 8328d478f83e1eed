"""Page that is shown until a program answers, or says why it does not."""

from __future__ import annotations

import html
from typing import Any

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>{again}</head>
<body style="font: 1rem system-ui, sans-serif; max-width: 45rem; margin: 4rem auto">
<h1>{title}</h1><p role="status">{words}</p>{more}</body></html>
"""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)


def write_page(
    handler: Any, title: str, words: str, *, output: str | None = None, again: bool = False
) -> None:
    """Write the page, which loads itself ``again``. ``output``: the end of a program's log, with a
    link that starts it again."""
    more = ""
    if output is not None:
        more = f'<pre style="white-space: pre-wrap">{html.escape(output)}</pre>'
        more += '<p><a href="?again">Start again</a></p>'
    handler.set_header("Content-Type", "text/html; charset=utf-8")
    handler.set_header("Content-Security-Policy", _POLICY)
    handler.set_header("Cache-Control", "no-store")
    handler.write(
        _PAGE.format(
            title=html.escape(title),
            words=html.escape(words),
            again='<meta http-equiv="refresh" content="1">' if again else "",
            more=more,
        )
    )
