"""Upload of a large file to a session's server, compared with curl's copy to the same disk."""

from __future__ import annotations

import base64
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.servers.session_server import TOKEN, SessionServer, a_server, make_python

from .cluster import NotMeasured
from .report import Row

WHAT = "An upload of 1 GiB to a session"
MIB = 1024
TIMES = 3
SHARE = 0.7  # of curl's speed
_MEMORY = 50  # MiB


def measure() -> list[Row]:
    """Measure both in turns, each until the disk has the bytes."""
    with (
        tempfile.TemporaryDirectory() as place,
        a_server(make_python(Path(place, "venv"))) as server,
    ):
        source = server.home / "source.bin"
        with source.open("wb") as file:
            for _ in range(MIB):
                file.write(os.urandom(1 << 20))
        before, copied, uploaded = _memory(server, "VmRSS"), [], []
        for number in range(TIMES):
            copied.append(_copied(source, server.home / f"copied-{number}"))
            uploaded.append(_uploaded(server, source, f"uploaded-{number}"))
            for name in ("copied", "uploaded"):
                (server.home / f"{name}-{number}").unlink()
        more = _memory(server, "VmHWM") - before
    ours, peer = (MIB / statistics.median(seconds) for seconds in (uploaded, copied))
    return [
        Row(
            f"{WHAT}: speed",
            ours,
            "MiB/s",
            "curl to the same disk",
            peer,
            goal=f"at least {SHARE:.0%} of curl's",
            met=ours >= SHARE * peer,
        ),
        Row(
            f"{WHAT}: memory of its server",
            more,
            "MiB more",
            goal=f"at most {_MEMORY}",
            met=more <= _MEMORY,
        ),
    ]


def _copied(source: Path, target: Path) -> float:
    began = time.monotonic()
    _curl("-o", str(target), source.as_uri())
    descriptor = os.open(target, os.O_WRONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return time.monotonic() - began


def _uploaded(server: SessionServer, source: Path, name: str) -> float:
    """Return the seconds of an upload, which ends with the file on the disk."""
    tus = {"Tus-Resumable": "1.0.0"}
    metadata = f"filename {base64.b64encode(name.encode()).decode()}"
    length = str(source.stat().st_size)
    began = time.monotonic()
    answer = server.client.post(
        "portal/uploads", headers=tus | {"Upload-Length": length, "Upload-Metadata": metadata}
    )
    headers = tus | {
        "Authorization": f"token {TOKEN}",
        "Upload-Offset": "0",
        "Content-Type": "application/offset+octet-stream",
        "Expect": "",
    }
    words = [word for key, value in headers.items() for word in ("-H", f"{key}: {value}")]
    _curl("-X", "PATCH", "-T", str(source), *words, server.url + answer.headers["Location"])
    seconds = time.monotonic() - began
    if (server.home / name).stat().st_size != source.stat().st_size:
        raise NotMeasured("the upload is not whole")
    return seconds


def _curl(*arguments: str) -> None:
    done = subprocess.run(["curl", "-sSf", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMeasured(f"curl failed: {done.stderr.strip()}")


def _memory(server: SessionServer, kind: str) -> int:
    """Return the MiB of the server's process."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) // 1024
