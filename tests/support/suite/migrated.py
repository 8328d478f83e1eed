"""Template for new SQLite databases, made once in this process.

Otherwise each of a thousand tests would create all tables. Those of tests/integration/store do.
"""

from __future__ import annotations

import functools
import tempfile
import threading
from pathlib import Path

from portal.store.engine import upgrade as module
from portal.store.engine.address import Address

MAKE_FILE = module._make_file
_lock = threading.RLock()  # the template is made through the same function


@functools.cache
def _template() -> bytes:
    with tempfile.TemporaryDirectory(prefix="pt-migrated-") as folder:
        file = Path(folder) / "portal.sqlite"
        MAKE_FILE(file)
        module.upgrade(Address.read(f"sqlite:///{file}"))
        return file.read_bytes()


def _make_file(path: Path) -> None:
    if path.exists():
        return
    MAKE_FILE(path)
    with _lock:
        path.write_bytes(_template())


def share() -> None:
    """Use the template in this process from now on."""
    module._make_file = _make_file
