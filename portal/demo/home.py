"""State directories of a demo: private, and all below one home."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigurationError

# A Unix socket's path has at most 107 characters (unix(7)); slurmstepd has the longest here:
# HOME/demo/slurm/d/gpu01/gpu01_4294967295.4294967295.
_LONGEST_HOME = 107 - len("/demo/slurm/d/gpu01/gpu01_4294967295.4294967295")
# Characters with a meaning in the settings of Slurm, slapd, MariaDB and Apptainer, or in a shell.
_REFUSED = re.compile(r"""[\s,:;#%="'`\\$&|<>()*?\[\]{}!]""")


@dataclass(frozen=True)
class Home:
    """State directory ``root`` and directory ``cache`` of reusable build results."""

    root: Path
    cache: Path

    @classmethod
    def find(cls, root: str | None = None) -> Home:
        """Return the home at ``root``, else at PORTAL_HOME, else at this account's default.

        Raises ConfigurationError if the path is too long for the Unix sockets below it, or if a
        path has a character that one of the daemons would misread.
        """
        named = root or os.environ.get("PORTAL_HOME")
        if named:
            path = Path(named).expanduser().absolute()
        elif os.geteuid() == 0:
            path = Path("/var/lib/data-scientist-portal")
        else:
            path = Path.home() / ".local/share/data-scientist-portal"
        if len(str(path)) > _LONGEST_HOME:
            raise ConfigurationError(
                f"The path of the state directory {path} has {len(str(path))} characters, too many "
                f"for Slurm's sockets. Set PORTAL_HOME to one of at most {_LONGEST_HOME}."
            )
        named = os.environ.get("PORTAL_CACHE")
        cache = Path(named).expanduser().absolute() if named else path / "cache"
        for variable, place in {"PORTAL_HOME": path, "PORTAL_CACHE": cache}.items():
            if character := _REFUSED.search(str(place)):
                raise ConfigurationError(
                    f"The path '{place}' has the character '{character[0]}', which Slurm and other "
                    f"parts of the demo would misread. Set {variable} to a path without it."
                )
        return cls(path, cache)

    @property
    def demo(self) -> Path:
        """All state of the demo, deleted by --reset."""
        return self.root / "demo"

    @property
    def log(self) -> Path:
        """Log files, one per daemon."""
        return self.demo / "log"

    @property
    def run(self) -> Path:
        """Process ids, sockets and ``state.json``, all renewed at each start."""
        return self.demo / "run"

    @property
    def people(self) -> Path:
        """Home directories of the demo's people."""
        return self.demo / "home"

    @property
    def scratch(self) -> Path:
        """Folder writable by everyone, like a cluster's scratch file system."""
        return self.demo / "scratch"

    @property
    def data(self) -> Path:
        """Folder that people can only read, like a cluster's shared data."""
        return self.demo / "data"

    @property
    def images(self) -> Path:
        """Container images built by the portal; readable by everyone."""
        return self.demo / "images"

    @property
    def node_cache(self) -> Path:
        """Unpacked images; on a real cluster, a folder on each node's local disk."""
        return self.demo / "node-cache"

    @property
    def exchange(self) -> Path:
        """Exchange directory of nbgrader, for grades."""
        return self.demo / "exchange"

    def make(self, shared: bool) -> None:
        """Create the directories. ``shared``: other accounts must be able to enter them.

        Raises ConfigurationError if a parent directory keeps other accounts out.
        """
        for path in (self.root, self.cache, self.demo, self.log, self.run, self.people):
            path.mkdir(parents=True, exist_ok=True)
            if shared:
                path.chmod(0o755)
        self._make_storage(shared)
        if not shared:
            self.demo.chmod(0o700)
            return
        for place in (self.root, self.cache):
            for parent in place.parents:
                if not parent.stat().st_mode & 0o001:
                    raise ConfigurationError(
                        f"Other accounts cannot enter {parent}, so the demo's users cannot reach "
                        f"{place}. Choose another directory with PORTAL_HOME or PORTAL_CACHE."
                    )

    def _make_storage(self, shared: bool) -> None:
        self.scratch.mkdir(exist_ok=True)
        self.scratch.chmod(0o1777 if shared else 0o700)
        self.data.mkdir(exist_ok=True)
        self.data.chmod(0o755)
        readme = self.data / "README.txt"
        if not readme.exists():
            readme.write_text(
                "Shared data of the demo, read-only in sessions.\n"
                f"Store your own large files in {self.scratch}.\n"
            )
        readme.chmod(0o444)
