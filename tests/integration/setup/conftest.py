"""A root of its own for each test: what a bare machine has in /etc, and nothing of the portal's."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from setup_machine import Machine

FILES = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nada:x:6101:6101::/home/ada:/bin/bash\n",
    "group": "root:x:0:\nportal-users:x:6101:ada\n",
    "shadow": "root:*:19000::::::\nada:*:19000::::::\n",
    "gshadow": "root:*::\nportal-users:*::ada\n",
    "login.defs": "SYS_UID_MIN 100\nSYS_UID_MAX 999\nUSERGROUPS_ENAB yes\n",
    "sudoers": "root ALL=(ALL:ALL) ALL\n@includedir /etc/sudoers.d\n",
    "nginx/nginx.conf": "events {}\nhttp { include conf.d/*.conf; }\n",
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    if os.geteuid():
        pytest.skip("only root makes accounts")
    monkeypatch.setattr("portal.setup.plan.secrets.token_hex", lambda size: "5e" * size)
    # In memory: each step waits for the disk.
    root = Path(tempfile.mkdtemp(prefix="pt-setup-", dir="/dev/shm"))
    root.chmod(0o755)
    for folder in ("etc/sudoers.d", "etc/systemd/system", "etc/nginx/conf.d", "shared", "var/lib"):
        (root / folder).mkdir(parents=True)
    for name, text in FILES.items():
        (root / "etc" / name).write_text(text)
    for name in ("shadow", "gshadow", "sudoers"):
        (root / "etc" / name).chmod(0o440)
    yield Machine(root)
    shutil.rmtree(root)
