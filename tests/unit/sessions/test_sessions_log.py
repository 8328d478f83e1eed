"""The end of a job's log, which is a user's bytes, as text."""

from __future__ import annotations

import os
import timeit
from pathlib import Path

from machine_clock import awake

from portal.sessions.log import MAX_BYTES, clean, tail

SHOWN = {
    "\x1b[31mred\x1b[0m \x1b]0;title\x07<b>\x00\ra\tb\r\nc": "red <b>\na\tb\nc",
    "<script>alert(1)</script>&amp;": "<script>alert(1)</script>&amp;",  # the page escapes
    "\x9b31mred\x9b0m": "red",  # the same in one character
    "\x1bPq#0;2;0\x1b\\picture": "picture",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x1b]left open\nis one line": "\nis one line",
    "\x1b[2J\x1b[H\x1bcgone": "gone",
    "nul\x00bel\x07del\x7fbs\x08": "nulbeldelbs",
    "exe\u202etxt.png": "exe\ufffdtxt.png",
    "\u2066a\u2069 b\u200f c\u2028d": "\ufffda\ufffd b\ufffd c\ufffdd",
    "naïve ☃ 日本": "naïve ☃ 日本",
}


def test_a_log_is_shown_as_text() -> None:
    assert {dirty: clean(dirty) for dirty in SHOWN} == SHOWN


def test_other_encodings_are_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes("café\n".encode("latin-1") + b"plain\n")
    assert tail(log) == "caf\N{REPLACEMENT CHARACTER}\nplain"


def test_a_log_of_a_gigabyte_is_read_at_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(2**30)
        file.seek(0, 2)
        file.write(b"\nthe end\n")
    started = awake()
    assert tail(log) == "\nthe end"
    assert awake() - started < 1
    log.write_bytes(b"x" * 10**6)
    assert len(tail(log)) == MAX_BYTES


def test_a_log_of_another_account_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("not ours")
    if os.geteuid() == 0:
        os.chown(log, 65534, -1)
        assert tail(log) == ""
    else:
        assert tail(Path("/etc/hostname")) == ""


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(9999)) + b"\xff\xfe end")
    lines = tail(log, 3).splitlines()
    assert lines == ["line 9997", "line 9998", "\N{REPLACEMENT CHARACTER}" * 2 + " end"]
    assert tail(tmp_path / "missing") == ""


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/etc/hostname")
    assert tail(link) == ""


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert tail(tmp_path / "fifo") == ""


def test_a_log_of_escapes_is_cleaned_in_linear_time() -> None:
    """Half a second of one page would be the whole Hub's: re holds the interpreter's lock."""
    short, long = (
        min(timeit.repeat(lambda n=n: clean("\x1b]" * n), number=1)) for n in (1000, 8000)
    )
    assert long < short * 8 * 4 + 0.05
