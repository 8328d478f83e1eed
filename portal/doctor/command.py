"""Runner of the site's other commands (sudo, apptainer, the proxy, node). Slurm's go through
portal.slurm.commands.run."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from typing import NamedTuple


class Answer(NamedTuple):
    """Result of a command; ``status`` is its exit status, 127 if it could not be started."""

    status: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """Return the first line of output, stderr before stdout."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[0].strip() if lines else f"status {self.status}"


async def ask(argv: Sequence[str], seconds: float = 10) -> Answer:
    """Run ``argv``, never through a shell and without input; at most ``seconds`` long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
    except OSError as error:
        return Answer(127, "", f"{argv[0]}: {error.strerror}")
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            process.kill()
        return Answer(124, "", f"{argv[0]} did not answer within {seconds:g} s")
    return Answer(
        process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")
    )
