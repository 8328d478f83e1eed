"""Jupyter's messages, as far as relay and starter read or write them (jupyter_client, "Messaging").

All others pass unread. jupyter_client itself is not used for these few: it loads for longer than
the rest of both programs, on the nodes where a kernel starts at that moment.
"""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

DELIMITER = b"<IDS|MSG>"
_VERSION = "5.3"  # of the protocol
_SCHEME = "hmac-"  # of a signature, before the name of the hash
# Replies of a kernel that does not run yet, to what pages ask beside running cells.
_KNOWS_NOTHING: dict[str, dict[str, Any]] = {
    "complete_request": {"matches": [], "cursor_start": 0, "cursor_end": 0, "metadata": {}},
    "inspect_request": {"found": False, "data": {}, "metadata": {}},
    "history_request": {"history": []},
    "is_complete_request": {"status": "unknown"},
    "comm_info_request": {"comms": {}},
}
_LANGUAGES: dict[str, dict[str, Any]] = {
    "python": {
        "name": "python",
        "version": "3",
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    },
    "R": {
        "name": "R",
        "version": "",
        "mimetype": "text/x-r-source",
        "codemirror_mode": "r",
        "pygments_lexer": "r",
        "file_extension": ".r",
    },
    "bash": {
        "name": "bash",
        "version": "",
        "mimetype": "text/x-sh",
        "codemirror_mode": "shell",
        "file_extension": ".sh",
    },
}


class Request(NamedTuple):
    """Request of a client, or reply to it: ``frames`` as received, with identities; the rest as
    parsed. ``parent``: the header of what it belongs to."""

    frames: list[bytes]
    identities: list[bytes]
    header: dict[str, Any]
    parent: dict[str, Any]
    content: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.header.get("msg_type", ""))

    @property
    def id(self) -> str:
        return str(self.header.get("msg_id", ""))


class Signed:
    """Messages that are signed with ``key``, and not at all with an empty one. ``scheme``: as in a
    connection file. Raises ValueError for a scheme that is unknown."""

    def __init__(self, key: str, scheme: str = "hmac-sha256") -> None:
        self._of = key, scheme
        hash_ = scheme.removeprefix(_SCHEME)
        self._empty = hmac.new(key.encode(), digestmod=hash_) if key else None
        self._session = uuid.uuid4().hex

    def request(self, frames: Sequence[bytes]) -> Request | None:
        """Parse a request; None for what is no message, or not signed with the key."""
        try:
            at = frames.index(DELIMITER)
            signature, *parts = frames[at + 1 :]
            if not hmac.compare_digest(self._signature(parts[:4]), bytes(signature)):
                return None
            header, parent, content = (json.loads(parts[number]) for number in (0, 1, 3))
        except (ValueError, IndexError, RecursionError):
            return None
        if not all(isinstance(part, dict) for part in (header, parent, content)):
            return None
        return Request(list(frames), list(frames[:at]), header, parent, content)

    def sign(self, frames: list[bytes], signed: Signed) -> list[bytes]:
        """Return the frames of a message that was ``signed`` with this key's signature."""
        if self._of == signed._of:
            return frames
        at = frames.index(DELIMITER) + 1
        return [*frames[:at], self._signature(frames[at + 1 : at + 5]), *frames[at + 1 :]]

    def question(self, kind: str, **content: Any) -> list[bytes]:
        """Return a request."""
        return self._serialized(kind, content, {})

    def reply(self, request: Request, content: dict[str, Any]) -> list[bytes]:
        """Return the reply to a request, addressed to its client."""
        kind = request.type.replace("_request", "_reply")
        return [*request.identities, *self._serialized(kind, content, request.header)]

    def broadcast(
        self, kind: str, content: dict[str, Any], parent: Mapping[str, Any] | None = None
    ) -> list[bytes]:
        """Return a message for all clients; ``parent``: the header of what it belongs to."""
        return [kind.encode(), *self._serialized(kind, content, dict(parent or {}))]

    def _serialized(
        self, kind: str, content: dict[str, Any], parent: dict[str, Any]
    ) -> list[bytes]:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "username": "portal",
            "session": self._session,
            "date": datetime.now(timezone.utc).isoformat(),
            "version": _VERSION,
        }
        parts = [json.dumps(part).encode() for part in (header, parent, {}, content)]
        return [DELIMITER, self._signature(parts), *parts]

    def _signature(self, parts: Sequence[Any]) -> bytes:
        if self._empty is None:
            return b""
        signing = self._empty.copy()
        for part in parts:
            signing.update(part)
        return signing.hexdigest().encode()


def kernel_info(language: str) -> dict[str, Any]:
    """Return the content of a kernel_info_reply for a kernel that does not run yet."""
    known = _LANGUAGES.get(language) or _LANGUAGES.get(language.lower())
    return {
        "status": "ok",
        "protocol_version": _VERSION,
        "implementation": "portal-job-kernel",
        "implementation_version": "1",
        "language_info": known or {"name": language, "file_extension": ""},
        "banner": "This kernel runs in a Slurm job of its own.",
        "help_links": [],
    }


def knows_nothing(request: Request) -> dict[str, Any] | None:
    """Return the reply of a kernel that does not run yet; None if the request should wait."""
    content = _KNOWS_NOTHING.get(request.type)
    if content is None:
        return None
    if request.type == "complete_request":
        at = request.content.get("cursor_pos", 0)
        content = {**content, "cursor_start": at, "cursor_end": at}
    return {"status": "ok", **content}


def says_starting(frames: Sequence[bytes]) -> bool:
    """Return True for the status "starting" of a kernel's process. A page would show it until a
    cell runs: JupyterLab ignores the status after requests that it does not track
    (``untracked_message_types``), and `StandIn.runs` says when the kernel is there."""
    content = frames.index(DELIMITER) + 5
    named = b"status" in frames[0] and len(frames) > content
    return named and b'"starting"' in frames[content]


def parent_of(frames: Sequence[Any]) -> dict[str, Any]:
    """Return the header of what a message belongs to; {} if it cannot be read."""
    try:
        parent = json.loads(bytes(frames[frames.index(DELIMITER) + 3]))
    except (ValueError, IndexError, RecursionError):
        return {}
    return parent if isinstance(parent, dict) else {}


def failure(name: str, sentence: str) -> dict[str, Any]:
    """Return the content of an error, as a cell shows it."""
    return {
        "status": "error",
        "ename": name,
        "evalue": sentence,
        "traceback": [f"\x1b[0;31m{name}\x1b[0m: {sentence}"],
    }
