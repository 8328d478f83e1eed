"""Resumption of a point in another job, when the time limit of its own is near.

Slurm says so by a signal (sbatch(1), ``--signal``). The program is asked to save itself: by a file,
which all of its processes see, and which a program that does not look for it survives
(library/portal_checkpoint.py). What it has saved is in a folder that all attempts of the point
share.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, Callable

from ..disk import read_regular
from .outcome import FAILED, RESUMES, SUCCEEDED, WAITING, Outcome
from .task import Task

PLACE, ATTEMPT = "PORTAL_CHECKPOINT", "PORTAL_ATTEMPT"  # variables of the program
# Files: the first one in the shared folder, the others in the attempt's.
FILE, NOTE, REQUEST = "checkpoint", "saved.json", "save-now"
_COUNT = "resumed"  # file in the shared folder: how many times the point was resumed
_PATIENCE = 0.6  # share of the time that is left, for saving at the next step
_LARGEST = 10_000  # bytes of what was noted
_LIMIT = "the time limit of its job was reached"


class Resumption:
    """Resumption of the task's point. ``folder``: of this attempt; ``asked``: Slurm has said that
    the time of the job is nearly over."""

    def __init__(self, task: Task, folder: Path) -> None:
        self._task, self._folder = task, folder
        self._place = task.folder / f"{task.number:04d}.checkpoint"
        self._timer: asyncio.TimerHandle | None = None
        self.asked = self._ends = False
        self._count = _number(self._place / _COUNT)

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the point's program."""
        return {PLACE: str(self._place), ATTEMPT: str(self._folder)}

    @property
    def words(self) -> str:
        """Sentence about a point that was resumed; "" for one that was not."""
        return f"Resumed {self._times}." if self._count else ""

    @property
    def _times(self) -> str:
        return f"{self._count} time{'s' * (self._count != 1)}"

    def ask(self, stop: Callable[[str], None]) -> None:
        """Ask the program to save itself. If it has saved something earlier and does not save
        itself in time, ``stop`` is called. Must be called in the event loop."""
        if self.asked:
            return
        self.asked = True
        with contextlib.suppress(OSError):  # a full disk: it could not save anything either
            (self._folder / REQUEST).touch()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._task.notice * _PATIENCE, self._late, stop)

    def _late(self, stop: Callable[[str], None]) -> None:
        if self._may_resume and self._note():
            self._ends = True
            stop(f"The point was stopped: {_LIMIT}")

    @property
    def _may_resume(self) -> bool:
        return self._count < self._task.resumes

    def _note(self) -> dict[str, Any]:
        """Return what this attempt has saved; {} if that is nothing."""
        try:
            note = json.loads(read_regular(self._folder / NOTE, _LARGEST, own=True))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) and (self._place / FILE).exists() else {}

    def checked(self, outcome: Outcome, *, stopped: bool) -> Outcome:
        """Return the outcome of a program that has ended, which may be that the point goes on in
        another job. ``stopped``: Slurm has ended it. Blocks."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.asked or stopped:
            return self._explained(outcome, stopped=stopped)
        note = self._note()
        if not note.get("ends") and not self._ends:
            return self._explained(outcome, stopped=False)
        where = f"Its checkpoint, after {note.get('done')} steps, is {self._place / FILE}."
        if not self._may_resume:
            return Outcome.failed(
                f"The point was stopped: {_LIMIT}, and {self._spent()}. {where} Start a run with "
                "more time or a larger --resume."
            )
        try:
            (self._place / _COUNT).write_text(str(self._count + 1))
        except OSError as error:
            return Outcome.failed(f"The point cannot be resumed: {error.strerror}. {where}")
        number = f"{self._count + 1} of {self._task.resumes}"
        words = f"Saved after {note.get('done')} steps; waiting for the next job ({number})."
        return Outcome(WAITING, words, RESUMES)

    def _spent(self) -> str:
        if not self._task.resumes:
            return "'--resume' was not set"
        return f"it has been resumed {self._times}, as often as '--resume' allows"

    def _explained(self, outcome: Outcome, *, stopped: bool) -> Outcome:
        """Return the outcome with what there is to say about resumption."""
        if outcome.state == SUCCEEDED:
            return outcome._replace(message=outcome.message or self.words)
        if stopped and self.asked and outcome.state == FAILED and not self._note():
            return outcome._replace(
                message=f"{outcome.message}. It was not resumed because it had saved no "
                "checkpoint: its loop must use 'portal_checkpoint', with steps shorter than the "
                "time that is left after Slurm's signal."
            )
        return outcome


def _number(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return max(0, int(read_regular(path, 100, own=True)))
    return 0
