"""Settings of builds and tests: how many at once, how often, for how long."""

from __future__ import annotations

from traitlets import Bool, Float, Instance, Integer
from traitlets.config import LoggingConfigurable

from portal.images.registry.registry import Registries
from portal.images.settings import Images


class WorkshopSettings(LoggingConfigurable):
    """Settings of a Workshop, and those of images and registries."""

    images = Instance(Images)
    registries = Instance(Registries)

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

    log_days = Float(
        90.0,
        min=1,
        help="""
        Days after which the log of a build or test is removed; what it ended with stays. The logs
        of an environment of somebody's own go with it, and those of its newest 20 tests are kept.

        Example::

            c.Workshop.log_days = 30
        """,
    ).tag(config=True)

    def _images_default(self) -> Images:
        return Images(parent=self)

    def _registries_default(self) -> Registries:
        return Registries(parent=self)
