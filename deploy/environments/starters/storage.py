"""Storage: speed of folders, measured with fio: sequential, in random blocks of 512K, and of 4K
with one and with 32 requests at a time, for reading and for writing.

    python storage.py [--home=~] [--scratch=/scratch/ada] [--data=/data] [--local=/tmp]

Each folder gets a file of ``size`` bytes in a new folder of its own, which is deleted at the end.
Each result is the median of ``repeats``. Reads and writes avoid the page cache (O_DIRECT). Where
the file system does not allow that, the condition "direct=0" says that the node's memory is
measured too.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmark_results import publish, result, stop

# Name: block size, requests at a time, and whether blocks are in a random order.
PATTERNS = {
    "sequential": ("1M", 8, False),
    "512K": ("512k", 1, True),
    "4K": ("4k", 1, True),
    "4K depth 32": ("4k", 32, True),
}
NO_DIRECT = 22  # EINVAL: what open and read answer that do not know O_DIRECT
FULL = {28: "it is full", 122: "your quota is used up"}  # ENOSPC, EDQUOT
PATIENCE = 600  # seconds for one measurement beyond its time


class Failed(Exception):
    """Failure of fio, with its number (errno; 0: unknown) and its words."""

    def __init__(self, number, words):
        super().__init__(words)
        self.number = number


def arguments(folder, pattern, way, size, seconds, direct):
    """Return the command for one measurement. ``way``: "read" or "write"."""
    block, depth, mixed = PATTERNS[pattern]
    return [
        "fio", "--name=portal", f"--directory={folder}", "--filename=measured",
        f"--rw={'rand' if mixed else ''}{way}", f"--bs={block}", f"--iodepth={depth}",
        "--ioengine=libaio", f"--direct={int(direct)}", f"--size={size}",
        f"--runtime={int(seconds * 1000)}ms", "--time_based", "--invalidate=1", "--randrepeat=0",
        *(["--end_fsync=1"] if way == "write" else []), "--output-format=json",
    ]  # fmt: skip


def parsed(text, way):
    """Return bytes per second and operations per second of fio's output. Raises Failed."""
    try:
        job = json.loads(text[text.index("{") :])["jobs"][0]  # warnings stand before it
        error, measured = int(job["error"]), job[way]
        speed = float(measured["bw_bytes"]), float(measured["iops"])
    except (ValueError, LookupError, TypeError):
        raise Failed(0, f"fio's output cannot be read: {text[:200]!r}") from None
    if error:
        raise Failed(error, os.strerror(error))
    if not speed[0]:
        raise Failed(0, "fio moved no data in the time")
    return speed


def measured(folder, pattern, way, options, direct):
    """Return the bytes and the operations per second of each repeat. Raises Failed."""
    command = arguments(folder, pattern, way, options.size, options.seconds, direct)
    speeds = []
    for _ in range(options.repeats):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=options.seconds + PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise Failed(0, f"fio did not end within {PATIENCE} seconds") from None
        if "{" not in done.stdout:  # as for a folder where nothing can be written
            raise Failed(_number(done.stderr), done.stderr.strip()[-300:] or "fio said nothing")
        speeds.append(parsed(done.stdout, way))
    return list(zip(*speeds))  # noqa: B905


def _number(words):
    """Return the errno in what fio says before its first measurement; 0 without one."""
    for number in (NO_DIRECT, *FULL):
        if os.strerror(number) in words:
            return number
    return 0


def of_folder(label, place, options):
    """Return the results of a folder. Raises Failed, OSError."""
    total, _, free = shutil.disk_usage(place)
    if total and free < 1.1 * options.size:  # some do not say how large they are
        raise Failed(28, f"{free:,} bytes are free, and {options.size:,} are needed")
    results, direct = [], True
    with tempfile.TemporaryDirectory(prefix=".portal-storage-", dir=place) as folder:
        for pattern in PATTERNS:
            for way in ("write", "read"):  # the first write makes the file
                try:
                    speed = measured(folder, pattern, way, options, direct)
                except Failed as failure:
                    if failure.number != NO_DIRECT or not direct:
                        raise
                    direct = False
                    speed = measured(folder, pattern, way, options, direct)
                about = {"folder": label, "pattern": pattern, "direct": int(direct)}
                about |= {"size": options.size, "seconds": options.seconds}
                rows = [("", "MB/s", [each / 1e6 for each in speed[0]])]
                if PATTERNS[pattern][0] == "4k":
                    rows.append((" operations", "IO/s", speed[1]))
                for what, unit, values in rows:
                    name, middle = f"{way} {pattern}{what}", statistics.median(values)
                    results.append(result(name, middle, unit, None, repeats=values, **about))
    return results


def main():
    """Measure each folder that is given; one that cannot be measured does not stop the others."""
    parser = argparse.ArgumentParser(description="Measure storage with fio.")
    folders = {
        "home": "~",
        "scratch": os.environ.get("SCRATCH", ""),
        "data": os.environ.get("DATA", ""),
        "local": os.environ.get("TMPDIR", tempfile.gettempdir()),
    }
    for label, default in folders.items():
        parser.add_argument(f"--{label}", default=default, help="folder; empty: none")
    parser.add_argument("--size", type=int, default=2**28, help="bytes of the file")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.size < 2**20 or options.seconds < 0.05 or options.repeats < 1:
        stop("--size must be 1048576 or more, --seconds 0.05 or more, --repeats 1 or more.")
    if shutil.which("fio") is None:
        stop(
            "This environment has no fio. Choose one that runs on the node itself (kind 'venv' or "
            "'modules') on nodes that have it, or build an image with the package 'fio'."
        )
    results, problems = [], []
    for label in folders:
        place = Path(getattr(options, label)).expanduser()
        if not getattr(options, label):
            continue
        try:
            results += of_folder(label, place, options)
        except Failed as failure:
            reason = FULL.get(failure.number)
            words = f"{reason}: {failure}" if reason else str(failure)
            problems.append(f"{label} ({place}) could not be measured: {words}.")
        except OSError as error:
            problems.append(f"{label} ({place}) could not be measured: {error.strerror}.")
    if results:
        publish("storage", __file__, results)
    if problems or not results:
        words = "Mend that, or leave the folder out, such as with --scratch= (empty)."
        stop("\n".join([*problems, words]) if problems else "No folder was given.")


if __name__ == "__main__":
    main()
