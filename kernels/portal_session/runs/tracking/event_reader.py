"""Reader of TensorBoard's event files: a program in the Python of a point, which may be older than
this package's and lack it, so this text is its ``-c``.

Its standard input has the paths of event files, a line each; what is told by scalars goes to the
file of metrics, its only argument. It reads until its input ends, and then once more.
"""

import json
import math
import os
import select
import stat
import sys
import types

_PAUSE = 2.0  # seconds between two looks at the files
_MOST = 200  # steps of one look that are written: a loss of each batch would fill the disk
_SPLITS = ("train", "training", "validation", "valid", "val", "test", "eval")
LACKING = 3  # exit code: this Python has no TensorBoard


def scalar(value, read):
    """Return the number of a summary's value; None if it is no scalar. ``read``: of tensors."""
    if value.HasField("simple_value"):
        return value.simple_value
    if not value.HasField("tensor"):
        return None
    if value.tensor.tensor_shape.dim or value.metadata.plugin_data.plugin_name not in (
        "",
        "scalars",
    ):
        return None
    try:
        return float(read(value.tensor))
    except (TypeError, ValueError):
        return None


def named(tag, path):
    """Return the name of a metric. Keras writes one name to train/ and to validation/."""
    folder = path.split("/")[-2]
    return folder + "/" + tag if folder in _SPLITS else tag


def steps_of(loader, path, read):
    """Return what a file has got since the last call: the values by name, by step."""
    steps = {}
    for event in loader.Load():
        for value in event.summary.value:
            number = scalar(value, read)
            if number is not None:
                json_number = number if math.isfinite(number) else str(number)
                steps.setdefault(event.step, {})[named(value.tag, path)] = json_number
    return steps


def thinned(steps):
    """Return the steps in order, _MOST of them at most, with the last one."""
    numbers = sorted(steps)
    every = -(-len(numbers) // _MOST)
    return numbers[::-1][:: max(1, every)][::-1]


def opened(path):
    """Return a path that leads to the file at ``path`` as long as this process lives, whatever
    takes its place. Raises OSError for a file of another user, and for what is none, as a FIFO:
    in a folder that several may write, anybody can use the name of a point's file."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        os.close(file)
        raise OSError("it is not a file of this user")
    return "/proc/self/fd/" + str(file)


def append(target, steps):
    """Append a line of JSON for each step, in one write for each."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(target, flags, 0o644)
    try:
        for number in thinned(steps):
            line = json.dumps(dict(steps[number], step=number)) + "\n"
            os.write(file, line.encode())
    finally:
        os.close(file)


def main(target):
    """Read until the standard input ends; return the exit code."""
    os.nice(10)
    # TensorFlow would take a GPU's memory, and some seconds; TensorBoard has a reader of its own.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("tensorboard.compat.notf")
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
        from tensorboard.util import tensor_util
    except ImportError:
        return LACKING
    loaders, rest, goes_on = {}, b"", True
    while goes_on:
        ready, _, _ = select.select([0], [], [], _PAUSE)
        if ready:
            part = os.read(0, 65536)
            goes_on = bool(part)
            lines = (rest + part).split(b"\n")
            rest = lines.pop()
            for line in lines:
                loaders[os.fsdecode(line)] = None
        for path in list(loaders):
            try:
                if loaders[path] is None:
                    loaders[path] = LegacyEventFileLoader(opened(path))
                append(target, steps_of(loaders[path], path, tensor_util.make_ndarray))
            except Exception as error:  # a damaged file ends this file, and no other
                sys.stderr.write(path + " cannot be read: " + repr(error) + "\n")
                del loaders[path]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
