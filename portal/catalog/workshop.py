"""Where images are built and environments are tested: jobs in Slurm, followed to their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from traitlets import Bool, Float, Integer
from traitlets.config import LoggingConfigurable

from portal.errors import Unavailable
from portal.models.catalog import Build, EnvironmentTest, EnvironmentVersion
from portal.models.environment import Environment

if TYPE_CHECKING:
    from portal.slurm import Cluster
    from portal.store import Store

    from .files import EnvironmentCatalog

WorkKind = Literal["build", "test"]


class Workshop(LoggingConfigurable):
    """Builds images and tests environments; one a service, whose loop ``run`` is.

    What it does is in the database, so that a restart of the service goes on where it was. Every
    public method raises StoreUnavailable.
    """

    max_builds = Integer(
        2,
        min=1,
        help="""
        How many images are built at the same time; others wait for their turn.

        Example::

            c.Workshop.max_builds = 4
        """,
    ).tag(config=True)

    max_tests = Integer(
        4,
        min=1,
        help="""
        How many smoke tests are in Slurm's queue or run at the same time.

        Example::

            c.Workshop.max_tests = 8
        """,
    ).tag(config=True)

    max_gpu_tests = Integer(
        2,
        min=1,
        help="""
        How many of these may be on GPUs, so that a catalog that is tested keeps people waiting for
        two GPUs at most.

        Example::

            c.Workshop.max_gpu_tests = 1
        """,
    ).tag(config=True)

    interval = Float(
        2.0,
        min=0.1,
        help="""
        Seconds between two looks at the logs and jobs of what is built and tested.

        Example::

            c.Workshop.interval = 5
        """,
    ).tag(config=True)

    test_by_itself = Bool(
        True,
        help="""
        Whether container environments that were never tested, or whose image file has changed, are
        tested without being told. Each is tested once; what failed waits for an admin.

        Example::

            c.Workshop.test_by_itself = False
        """,
    ).tag(config=True)

    again_after = Float(
        3600.0,
        min=60,
        help="""
        Seconds until a test that could not be run (a node failed, Slurm was away) is tried again.

        Example::

            c.Workshop.again_after = 600
        """,
    ).tag(config=True)

    queue_patience = Float(
        24 * 3600.0,
        min=60,
        help="""
        Seconds that a build or test may wait in Slurm's queue before it is given up.

        Example::

            c.Workshop.queue_patience = 3600
        """,
    ).tag(config=True)

    def join(self, cluster: Cluster, store: Store, catalog: EnvironmentCatalog) -> None:
        """Say what this works with; before anything else is called."""
        self.tools = Tools(cluster, store, catalog)

    async def build(self, version: EnvironmentVersion, asker: str) -> Build:
        """Have the image of ``version`` built, whose state becomes BUILDING, then TESTING, then
        READY or FAILED.

        An image that is there already is used, and a build of the same that is under way is
        joined. Raises InvalidRequest with field "source" where the source cannot be resolved,
        Conflict where this version is being built.
        """
        raise Unavailable("Images cannot be built here yet.")

    async def test(
        self,
        environment: Environment,
        number: int | None,
        gpu_types: Sequence[str] | None,
        asker: str,
        user: str = "",
    ) -> list[EnvironmentTest]:
        """Have ``environment`` tested without GPUs and on ``gpu_types`` (None: on all that it is
        offered for); tests of the same that are under way are joined.

        ``number``: of the version that it is; None for a file of the catalog. ``user``: whom the
        jobs run as; "": the service account. Raises InvalidRequest for GPUs that this cluster does
        not have.
        """
        raise Unavailable("Environments cannot be tested here yet.")

    async def cancel_build(self, id: int, by: str) -> Build:
        """End a build. Raises NotFound, Conflict when it is over, SlurmUnavailable."""
        raise Unavailable("Images cannot be built here yet.")

    async def cancel_test(self, id: int, by: str) -> EnvironmentTest:
        """End a test, which then says nothing. Raises as ``cancel_build`` does."""
        raise Unavailable("Environments cannot be tested here yet.")

    async def retry(self, id: int, by: str) -> Build:
        """Build once more what failed or was cancelled, for those who had asked; what was pulled
        is not pulled again. Raises NotFound, Conflict when it is not over or has passed."""
        raise Unavailable("Images cannot be built here yet.")

    async def log(self, kind: WorkKind, id: int, offset: int = 0) -> tuple[str, int]:
        """Plain text of the log of a build or test from byte ``offset`` on, and where to go on
        reading. At most 64 KiB at once. Raises NotFound."""
        return "", offset

    async def run(self) -> None:
        """The loop; to be started once."""
        while True:
            await asyncio.sleep(self.interval)


@dataclass
class Tools:
    """What the workshop works with."""

    cluster: Cluster
    store: Store
    catalog: EnvironmentCatalog
    images: Any = None
    registries: Any = None
