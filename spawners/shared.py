"""What all spawners of one Hub process share: the cluster watcher and the catalog.

JupyterHub makes a spawner per server; one watcher per spawner would ask Slurm once for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from traitlets.config import Config

from portal.catalog import EnvironmentCatalog
from portal.slurm import Cluster

from .blocking import Blocking
from .commits import Commits
from .form import LaunchForm
from .preparation import Preparation
from .storage import Storage
from .turns import Turns


@dataclass
class Shared:
    """The parts of the Hub process that exist once. ``Shared.of(config)`` gives them."""

    cluster: Cluster
    catalog: EnvironmentCatalog
    form: LaunchForm
    storage: Storage
    commits: Commits = field(default_factory=Commits)
    turns: Turns = field(default_factory=Turns)
    blocking: Blocking = field(default_factory=Blocking)

    preparation: Preparation = field(init=False)

    def __post_init__(self) -> None:
        self.preparation = Preparation(self.blocking)

    _only: ClassVar[Shared | None] = None

    @classmethod
    def of(cls, config: Config) -> Shared:
        """The process's one instance, made with ``config`` at the first call."""
        if cls._only is None:
            cls._only = cls(
                cluster=Cluster(config=config),
                catalog=EnvironmentCatalog(config=config),
                form=LaunchForm(config=config),
                storage=Storage(config=config),
            )
        return cls._only
