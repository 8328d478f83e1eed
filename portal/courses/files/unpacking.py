"""Program that unpacks what a session gave, in a process of its own: the file is untrusted, and a
reader of such files can be made to hang or to fill the memory.

``python -m portal.courses.files.unpacking TAR FOLDER BYTES FILES`` extracts the plain files of TAR
into FOLDER, which exists and is empty, and prints {"files": …, "size": …, "left_out": …} or
{"error": …}. Only plain files and folders are extracted, and nothing outside of FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path
from typing import IO, Any

from portal.safe_path import unsafe

_CHUNK = 1024 * 1024


class LimitExceeded(Exception):
    """Excess over a limit, with a sentence as its message."""


def unpack(packed: IO[bytes], folder: Path, most: int, most_files: int) -> dict[str, Any]:
    """Extract the files. ``most`` is in bytes. Raises TooMuch, tarfile.TarError, OSError."""
    files = size = left_out = 0
    with tarfile.open(fileobj=packed, mode="r|") as tar:
        for member in tar:
            if member.isdir():
                continue
            if files + left_out >= most_files:
                raise LimitExceeded(f"The folder has more than {most_files} files.")
            if not member.isreg() or member.issparse() or unsafe(member.name):
                left_out += 1
                continue
            size += member.size
            if size > most:
                raise LimitExceeded(f"The folder has more than {most // 1024 // 1024} MB.")
            source = tar.extractfile(member)
            if source is None or not _write(source, folder / member.name, member.size):
                left_out += 1
                size -= member.size
                continue
            files += 1
    return {"files": files, "size": size, "left_out": left_out}


def _write(source: IO[bytes], path: Path, size: int) -> bool:
    """Write a file; return False if its name, or a folder's, is another file's already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(path, flags, 0o600)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        return False
    with os.fdopen(opened, "wb") as target:
        left = size
        while left:
            part = source.read(min(left, _CHUNK))
            if not part:
                raise tarfile.ReadError("it ends in the middle of a file")
            target.write(part)
            left -= len(part)
    return True


def main(arguments: list[str]) -> int:
    """Run the program; see the module."""
    packed, folder, most, most_files = arguments
    try:
        with Path(packed).open("rb") as file:
            result = unpack(file, Path(folder), int(most), int(most_files))
    except LimitExceeded as error:
        result = {"error": str(error)}
    except (tarfile.TarError, ValueError, EOFError) as error:
        result = {"error": f"The upload is not a complete tar file ({str(error)[:100]})."}
    except OSError as error:
        result = {"error": f"The portal cannot store the files: {error.strerror}."}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
