"""Where one demo keeps its state: private directories under one home, none outside it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigurationError

# A Unix socket's path has at most 107 characters (unix(7)); slurmstepd's is the longest here:
# HOME/demo/slurm/d/gpu01/gpu01_4294967295.4294967295.
_LONGEST_HOME = 107 - len("/demo/slurm/d/gpu01/gpu01_4294967295.4294967295")


@dataclass(frozen=True)
class Home:
    """The state directory ``root`` and the directory ``cache`` of slow, reusable things."""

    root: Path
    cache: Path

    @classmethod
    def find(cls, root: str | None = None) -> Home:
        """The home that ``root``, else PORTAL_HOME, else the default of this account names.

        Raises ConfigurationError where the path is too long for the Unix sockets below it.
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
                f"The state directory {path} has a path of {len(str(path))} characters, too long "
                f"for Slurm's sockets: name one of at most {_LONGEST_HOME} with PORTAL_HOME."
            )
        cache = os.environ.get("PORTAL_CACHE")
        return cls(path, Path(cache).expanduser().absolute() if cache else path / "cache")

    @property
    def demo(self) -> Path:
        """All run state of the demo: what --reset deletes."""
        return self.root / "demo"

    @property
    def log(self) -> Path:
        """One log file for each daemon."""
        return self.demo / "log"

    @property
    def run(self) -> Path:
        """Process ids, sockets and ``state.json``, all renewed at each start."""
        return self.demo / "run"

    @property
    def people(self) -> Path:
        """The home directories of the demo's people."""
        return self.demo / "home"

    @property
    def scratch(self) -> Path:
        """A folder where everyone can write, as a cluster's scratch file system is."""
        return self.demo / "scratch"

    @property
    def data(self) -> Path:
        """A folder where people can only read, as a cluster's shared data are."""
        return self.demo / "data"

    @property
    def images(self) -> Path:
        """Container images that the portal has built; everyone can read them."""
        return self.demo / "images"

    @property
    def node_cache(self) -> Path:
        """Images unpacked: what would be a folder on each node's own disk."""
        return self.demo / "node-cache"

    @property
    def exchange(self) -> Path:
        """Where courses with grades have nbgrader's exchange."""
        return self.demo / "exchange"

    def make(self, shared: bool) -> None:
        """Make the directories. ``shared``: other accounts must be able to enter them.

        Raises ConfigurationError where a directory above keeps other accounts out.
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
            for above in place.parents:
                if not above.stat().st_mode & 0o001:
                    raise ConfigurationError(
                        f"Other accounts cannot enter {above}, so the demo's people could not "
                        f"reach {place}: choose another place with PORTAL_HOME or PORTAL_CACHE."
                    )

    def _make_storage(self, shared: bool) -> None:
        self.scratch.mkdir(exist_ok=True)
        self.scratch.chmod(0o1777 if shared else 0o700)
        self.data.mkdir(exist_ok=True)
        self.data.chmod(0o755)
        readme = self.data / "README.txt"
        if not readme.exists():
            readme.write_text(
                "Shared data of the demo: everyone can read it, sessions cannot change it.\n"
                f"Room for large files of your own is in {self.scratch}.\n"
            )
        readme.chmod(0o444)
