"""What an account's processes listen on, and what another account of the node is told there.

Both are programs, for any Python 3, so that they can run as either account and inside a demo.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

# Prints a JSON list of [kind, address] of the listening sockets of all processes with this home,
# also of those that have left their parents (proc(5); 0A is TCP_LISTEN, 10000 __SO_ACCEPTCON).
_WALK = r"""
import json, os, pathlib, sys
home, places = sys.argv[1], {}
for kind, host in (("tcp", "127.0.0.1"), ("tcp6", "::1")):
    for line in pathlib.Path("/proc/net/" + kind).read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            places[fields[9]] = (kind, [host, int(fields[1].rpartition(":")[2], 16)])
for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
    fields = line.split()
    if len(fields) > 7 and int(fields[3], 16) & 0x10000:
        name = fields[7]
        places[fields[6]] = ("unix", "\0" + name[1:] if name.startswith("@") else name)
sockets = []
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        if ("HOME=" + home).encode() not in (process / "environ").read_bytes().split(b"\0"):
            continue
        ends = {os.readlink(end)[8:-1] for end in (process / "fd").iterdir()}
    except OSError:
        continue
    sockets += [places[inode] for inode in ends & places.keys()]
print(json.dumps(sockets))
"""
# Takes a JSON list of sockets and a path of the session's pages, and prints for each socket what it
# was told there, as hexadecimal; "" for nothing, null for a refusal by the file system.
_NEIGHBOUR = r"""
import json, socket, sys
path = sys.argv[2].encode()
DAP = {"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}}
body = json.dumps(DAP).encode()
PROBES = [
    b"",
    b"GET " + path + b" HTTP/1.0\r\n\r\n",
    b"Content-Length: %d\r\n\r\n" % len(body) + body,
    b"\xff" + b"\0" * 8 + b"\x7f\x03\0NULL" + b"\0" * 48,  # a greeting of ZMTP 3.0 (RFC 23)
]
said = {}
for kind, address in json.loads(sys.argv[1]):
    said[str(address)] = []
    for probe in PROBES:
        family = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6, "unix": socket.AF_UNIX}[kind]
        with socket.socket(family) as client:
            client.settimeout(1.5)
            try:
                client.connect(tuple(address) if kind != "unix" else address)
                client.sendall(probe)
                answer = client.recv(4096)
            except (PermissionError, FileNotFoundError):
                said[str(address)].append(None)
            except (TimeoutError, ConnectionError):
                said[str(address)].append("")
            else:
                said[str(address)].append(answer.hex())
print(json.dumps(said))
"""

INTRUDER = 65534  # "nobody" nearly everywhere; another account than ours
_PATH = "/user/ada/api/kernels"
_REFUSALS = [[status] for status in (b"302", b"303", b"400", b"401", b"403")]
Run = Callable[[list[str]], str]  # runs an argv as an account, and returns what it prints
Socket = tuple[str, Any]  # "tcp", "tcp6" or "unix"; its host and port, or its path


def listening_sockets(run: Run, home: str) -> list[Socket]:
    """All listening sockets of the processes with this home; ``run``: as their account or root."""
    printed = run(["/usr/bin/python3", "-c", _WALK, home])
    return [(kind, address) for kind, address in json.loads(printed)]


def told(run: Run, sockets: list[Socket], path: str = _PATH) -> dict[str, list[str | None]]:
    """What the account of ``run`` is told at these sockets, by address: one for each probe."""
    argv = ["/usr/bin/python3", "-c", _NEIGHBOUR, json.dumps(sockets), path]
    return dict(json.loads(run(argv)))


def reached(run: Run, sockets: list[Socket], path: str = _PATH) -> dict[str, list[str | None]]:
    """What the account of ``run`` is told that is no refusal, by address. ``path``: a page of the
    session, on its host, that is behind its login."""
    answers = told(run, sockets, path)
    return {place: said for place, said in answers.items() if not all(map(is_refusal, said))}


def is_refusal(answer: str | None) -> bool:
    """Return True if a neighbour learned nothing: silence, no way in, or a login's refusal."""
    words = bytes.fromhex(answer or "")
    # http.server answers what is no HTTP with a page of HTTP/0.9, which has no status line.
    malformed = words.startswith(b"<!DOCTYPE HTML>") and b"Error code: 400" in words
    return not words or malformed or words.split(b" ")[1:2] in _REFUSALS


def as_owner(argv: list[str]) -> str:
    """Run a program as this account: what it prints."""
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def as_neighbour(argv: list[str]) -> str:
    """Run a program as `INTRUDER`, which root can: what it prints."""
    other: Any = {"user": INTRUDER, "group": INTRUDER, "extra_groups": []}
    return subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, check=True, timeout=300, cwd="/", **other
    ).stdout


def as_account(demo: Any, name: str) -> Run:
    """Run programs as an account of a demo."""
    return lambda argv: str(demo.run(argv, user=demo.user(name), timeout=300).stdout)
