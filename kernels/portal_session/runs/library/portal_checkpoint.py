"""Loop that goes on where it was interrupted, in a run's point that Slurm starts again:
``for epoch in resumed(range(90), model=model, optimizer=optimizer): ...``.

It saves the named objects and the state of the random numbers every few minutes, and when the time
of the job is nearly over; then it ends the program, whose job starts again. Outside of a run it is
a plain loop. This module is found as `portal_metrics` is, and imports the standard library only.
"""

import json
import os
import pickle
import stat
import sys
import time
from itertools import islice
from pathlib import Path

from portal_states import random_states, set_random, set_state, state_of

_PLACE = "PORTAL_CHECKPOINT"  # path of the folder that all attempts of the point share
_ATTEMPT = "PORTAL_ATTEMPT"  # path of this attempt's folder
FILE = "checkpoint"  # in the shared folder
REQUEST = "save-now"  # in the attempt's: its time is nearly over
NOTE = "saved.json"  # in the attempt's: what it has saved
_EXIT = 85  # status of a program that was saved because its time is over
_LOOKS = 0.2  # seconds between two looks for the request
_AGAIN = 5.0  # seconds between two tries to save
_IMMUTABLE = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))

_begun = []  # the loop of this process


class Saved(SystemExit):
    """End of a program that was saved because its time is over."""

    def __str__(self):  # type: ignore[no-untyped-def]
        return "The job's time limit is near. The loop was saved and continues in the next job."


def resumed(steps, minutes=10, **objects):  # type: ignore[no-untyped-def]
    """Return an iterator over ``steps``, such as ``range(90)``, without those that earlier attempts
    of this point have done; from the first one on, ``objects`` are as they were then.

    An object is PyTorch's (model, optimizer, scheduler: what has a ``state_dict``), a Keras model,
    a NumPy array or generator, a dict, a list, a set, or any other with attributes. They are saved
    after a step, every ``minutes``. Raises TypeError for an object that cannot be restored, and
    RuntimeError for a second loop and for a checkpoint that does not fit.
    """
    for name, value in objects.items():
        if isinstance(value, _IMMUTABLE):
            raise TypeError(
                f"'{name}' is of type {type(value).__name__}, which cannot be restored. Keep it in "
                f"a dict, such as state = {{'{name}': ...}}, and name that: resumed(..., "
                "state=state)."
            )
    place, attempt = os.environ.get(_PLACE), os.environ.get(_ATTEMPT)
    if not place or not attempt:
        return iter(steps)
    if _begun:
        raise RuntimeError(
            "resumed() can be used for only one loop of a program: the one that takes longest."
        )
    _begun.append(True)
    return _Loop(objects, Path(place), Path(attempt)).run(steps, 60.0 * minutes)


class _Loop:
    def __init__(self, objects, place, attempt):  # type: ignore[no-untyped-def]
        self._objects, self._place, self._attempt = objects, place, attempt

    def run(self, steps, every):  # type: ignore[no-untyped-def]
        state = self._loaded()
        done = state["done"] if state else 0
        left = islice(iter(steps), done, None)
        first = os.environ.get("RANK", "0") == "0"  # of several processes, the first one saves
        words = self._restore(state) if state else ""
        if words and first:
            print(words, file=sys.stderr)
        saved_at = looked_at = time.monotonic()
        tried_at = saved_at - _AGAIN
        for step in left:
            yield step
            done += 1
            now = time.monotonic()
            if not first or now - looked_at < _LOOKS:
                continue
            looked_at = now
            over = (self._attempt / REQUEST).exists()
            if (over or now - saved_at >= every) and now - tried_at >= _AGAIN:
                tried_at = now
                if self._save(done, over):
                    saved_at = time.monotonic()
                    if over:
                        raise Saved(_EXIT)

    def _save(self, done, over):  # type: ignore[no-untyped-def]
        """Save the loop after ``done`` steps; return True if that succeeded. ``over``: the loop
        ends then."""
        note = json.dumps({"done": done, "ends": over}).encode()
        try:
            states = {name: state_of(value) for name, value in self._objects.items()}
            state = {"done": done, "objects": states, "random": random_states()}
            self._place.mkdir(exist_ok=True)
            _write(self._place / FILE, lambda file: _dump(state, file))
            _write(self._attempt / NOTE, lambda file: file.write(note))
        except Exception as error:  # of the disk, of pickle, of the object itself
            words = f"{type(error).__name__}: {error}"
            print(f"The checkpoint was not saved; the loop continues: {words}", file=sys.stderr)
            return False
        return True

    def _loaded(self):  # type: ignore[no-untyped-def]
        """Return what the newest attempt has saved; None if none has."""
        path = self._place / FILE
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RuntimeError(f"{path} cannot be read: {error.strerror}.") from error
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            # Unpickling executes what the file says.
            own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
            if not own or about.st_mode & stat.S_IWOTH:
                raise RuntimeError(
                    f"{path} is not a file that only you may write, so it is not read. Delete it "
                    "to start over."
                )
            return self._of(file, path)

    def _of(self, file, path):  # type: ignore[no-untyped-def]
        """Return what a checkpoint has. Raises RuntimeError."""
        try:
            return _load(file)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise RuntimeError(
                f"{path} cannot be read: {words}. Delete it to start over."
            ) from error

    def _restore(self, state):  # type: ignore[no-untyped-def]
        """Return a sentence about what could not be restored, "" if that is nothing."""
        saved_names, named = sorted(state["objects"]), sorted(self._objects)
        if saved_names != named:
            raise RuntimeError(
                f"The checkpoint has {', '.join(saved_names) or 'nothing'}, but the loop names "
                f"{', '.join(named) or 'nothing'}. Name the same objects, or delete "
                f"{self._place / FILE} to start over."
            )
        for name, value in self._objects.items():
            try:
                set_state(value, state["objects"][name])
            except Exception as error:
                words = f"{type(error).__name__}: {error}"
                raise RuntimeError(
                    f"'{name}' does not fit the checkpoint: {words}. Create it as before, or "
                    f"delete {self._place / FILE} to start over."
                ) from error
        return set_random(state["random"])


def _dump(state, file):  # type: ignore[no-untyped-def]
    torch = sys.modules.get("torch")
    if torch is None:
        pickle.dump(state, file)
    else:  # makes no second copy of the tensors
        torch.save(state, file)


def _load(file):  # type: ignore[no-untyped-def]
    archive = file.read(2) == b"PK"  # of torch.save
    file.seek(0)
    if not archive:
        return pickle.load(file)  # noqa: S301 - the user's own file
    import torch

    try:
        return torch.load(file, map_location="cpu", weights_only=False)
    except TypeError:  # before PyTorch 1.13
        file.seek(0)
        return torch.load(file, map_location="cpu")


def _write(path, fill):  # type: ignore[no-untyped-def]
    """Write a file, whole or not at all. Raises what ``fill`` raises, and OSError."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        if new.exists():
            new.unlink()
        raise
