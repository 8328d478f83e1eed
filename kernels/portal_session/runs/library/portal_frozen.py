"""Local modules of a run's point, as they were when the run was started: after ``install()`` they
are imported from their frozen copies. For the program, they are beside its source as before.

A point's kernel calls it before the first cell, `portal_main` before a script, and
`portal_session.python_start` in every Python of a point that has this package. This module imports
the standard library only.
"""

import importlib.util
import json
import linecache
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

VARIABLE = "PORTAL_FROZEN"  # path of the folder with the copies
FILE = "frozen.json"


def install():  # type: ignore[no-untyped-def]
    """Have frozen modules imported in place of their files; once, and not outside of a run."""
    folder = os.environ.get(VARIABLE)
    if not folder or any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    frozen = json.loads(Path(folder, FILE).read_text(encoding="utf-8"))
    at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
    sys.meta_path.insert(at, Finder(Path(folder), **frozen))


class Finder:
    """Finder of the frozen ``modules``: by name, their paths and their files in ``folder``.
    ``roots``: the folders in which they were found, the source's first; ``repeats``: the run
    repeats another one."""

    def __init__(self, folder, modules, roots, repeats):  # type: ignore[no-untyped-def]
        self._folder, self._modules, self._repeats = folder, modules, repeats
        self._roots = [Path(root) for root in roots]
        # What the environment and the user have chosen; nothing of the source has run yet.
        self._given = [Path(place).resolve() for place in sys.path if place]

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Return the spec of a frozen module, None for others. Raises ImportError for a file of
        another user that was not frozen with the run that is repeated."""
        if name not in self._modules and not self._repeats:
            return None
        spec = PathFinder.find_spec(name, path, target)
        origin = Path(spec.origin) if spec is not None and spec.has_location else None
        if name in self._modules and (origin is None or self._is_local(origin)):
            file, copy = Path(self._modules[name][0]), self._folder / self._modules[name][1]
            place = file.parents[file.name == "__init__.py"]
            # An installed package may have the name of a folder beside the source.
            if path is None or place.resolve() in [Path(folder).resolve() for folder in path]:
                package = [str(file.parent)] if file.name == "__init__.py" else None
                return importlib.util.spec_from_file_location(
                    name,
                    str(file),
                    loader=Loader(name, str(file), copy),
                    submodule_search_locations=package,
                )
        if origin is not None and self._repeats and self._is_new(origin):
            raise ImportError(
                str(origin) + " belongs to another user, and was not frozen with the run that is "
                "repeated, so it is not executed. Copy the source and its modules to one of your "
                "folders, and start a run there."
            )
        return None

    def _is_local(self, origin):  # type: ignore[no-untyped-def]
        """Return True for a file of the folders with the source's modules: as it is named, or where
        links lead, since others may have put a link in the place of a file or folder."""
        file = origin.resolve()
        if _is_below(file, _installed()):
            return False
        real = [root.resolve() for root in self._roots]
        return _is_below(origin, self._roots) or _is_below(file, self._roots + real)

    def _is_new(self, origin):  # type: ignore[no-untyped-def]
        """Return True for a file or link of another user that is not of the environment."""
        file = origin.resolve()
        local = self._is_local(origin)
        if not local and _is_below(file, self._given + _installed()):
            return False
        # A link beside the source may lead to something else in a moment: not to root's files.
        trusted = (os.getuid(),) if local else (os.getuid(), 0)
        return not all(_owner(place) in trusted for place in (origin, file))


def _is_below(file, places):  # type: ignore[no-untyped-def]
    return any(place in file.parents for place in places)


def _owner(file):  # type: ignore[no-untyped-def]
    """Return whose a file or link is; that of the archive for a file in one. -1: unknown."""
    for place in (file, *file.parents):
        try:
            return place.lstat().st_uid
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            break
    return -1


def _installed():  # type: ignore[no-untyped-def]
    """Return the folders of this Python's own packages."""
    return [Path(place).resolve() for place in (sys.prefix, sys.base_prefix)]


class Loader(SourceFileLoader):
    """Loader of the module ``name`` whose file is ``path``, from its frozen ``copy``. Files beside
    it are read as Python's own loader does it, also by ``importlib.resources``."""

    def __init__(self, name, path, copy):  # type: ignore[no-untyped-def]
        super().__init__(name, path)
        self._copy = copy

    def path_stats(self, path):  # type: ignore[no-untyped-def]
        """Raise OSError: what Python has compiled is of the file as it was then, or is now."""
        raise OSError

    def get_data(self, path):  # type: ignore[no-untyped-def]
        """Return the frozen content of the module; of other files, what they have."""
        return (self._copy if path == self.path else Path(path)).read_bytes()

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        """Execute the module. Tracebacks show its lines as they were."""
        text = self.get_source(module.__name__)
        linecache.cache[self.path] = (len(text), None, text.splitlines(True), self.path)
        super().exec_module(module)
