"""Reader of TensorBoard's event files: a program in the Python of a point, which may be older than
this package's and lack it, so this text is its ``-c``.

Its standard input has the paths of event files, a line each; what is told by scalars goes to the
file of metrics, its only argument. It reads until its input ends, and then once more.
"""

import json
import math
import os
import resource
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


class Names:
    """Names of metrics. The first folder that writes a name has it alone: files of another one get
    the folder's name before it, as many folders as make it another."""

    def __init__(self):
        self._folders = {}  # by name
        self._names = {}  # by folder and tag

    def named(self, tag, path):
        """Return the name of what the file ``path`` calls ``tag``."""
        folder = os.path.dirname(path)  # noqa: PTH120
        key = (folder, tag)
        if key not in self._names:
            parts = folder.split("/")
            names = ["/".join([*parts[-number:], tag]) for number in range(1, len(parts) + 1)]
            for name in [self._first(tag, parts[-1]), *names]:
                if self._folders.setdefault(name, folder) == folder:
                    break
            self._names[key] = name
        return self._names[key]

    def _first(self, tag, folder):
        """Return the name without other folders."""
        if folder in _SPLITS:  # Keras writes one name to train/ and to validation/
            return folder + "/" + tag
        # add_scalars of PyTorch writes one tag to a folder for each name.
        start = tag.replace("/", "_") + "_"
        if folder.startswith(start) and len(folder) > len(start):
            return tag + "/" + folder[len(start) :]
        return tag


def steps_of(loader, path, read, names):
    """Return what a file has got since the last call: the values by name, by step."""
    steps = {}
    for event in loader.Load():
        for value in event.summary.value:
            number = scalar(value, read)
            if number is not None:
                json_number = number if math.isfinite(number) else str(number)
                steps.setdefault(event.step, {})[names.named(value.tag, path)] = json_number
    return steps


def thinned(steps):
    """Return the values by name, by step, of each name _MOST at most, with its last one: one that
    is written once in a thousand steps must not be lost among the others."""
    numbers = {}
    for number in sorted(steps):
        for name in steps[number]:
            numbers.setdefault(name, []).append(number)
    thin = {}
    for name, of_name in numbers.items():
        every = -(-len(of_name) // _MOST)
        for number in of_name[::-1][::every]:
            thin.setdefault(number, {})[name] = steps[number][name]
    return thin


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
        thin = thinned(steps)
        for number in sorted(thin):
            line = json.dumps(dict(thin[number], step=number)) + "\n"
            os.write(file, line.encode())
    finally:
        os.close(file)


def main(target):
    """Read until the standard input ends; return the exit code."""
    os.nice(10)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # each file of a point stays open
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # TensorFlow would take a GPU's memory, and some seconds; TensorBoard has a reader of its own.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("tensorboard.compat.notf")
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
        from tensorboard.util import tensor_util
    except ImportError:
        return LACKING
    loaders, names, rest, goes_on = {}, Names(), b"", True
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
                append(target, steps_of(loaders[path], path, tensor_util.make_ndarray, names))
            except Exception as error:  # a damaged file ends this file, and no other
                sys.stderr.write(path + " cannot be read: " + repr(error) + "\n")
                del loaders[path]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
