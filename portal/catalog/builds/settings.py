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
        Maximum number of concurrent image builds; others wait.

        Example::

            c.Workshop.max_builds = 4
        """,
    ).tag(config=True)

    max_tests = Integer(
        4,
        min=1,
        help="""
        Maximum number of smoke tests that are queued in Slurm or running.

        Example::

            c.Workshop.max_tests = 8
        """,
    ).tag(config=True)

    max_gpu_tests = Integer(
        2,
        min=1,
        help="""
        Maximum number of these tests that use GPUs, so that testing a catalog takes only a few GPUs
        from users.

        Example::

            c.Workshop.max_gpu_tests = 1
        """,
    ).tag(config=True)

    interval = Float(
        2.0,
        min=0.1,
        help="""
        Seconds between checks of the logs and jobs of builds and tests.

        Example::

            c.Workshop.interval = 5
        """,
    ).tag(config=True)

    test_by_itself = Bool(
        True,
        help="""
        Whether container environments that were never tested, or whose image file has changed, are
        tested automatically. Each is tested once; after a failure, an admin decides.

        Example::

            c.Workshop.test_by_itself = False
        """,
    ).tag(config=True)

    again_after = Float(
        3600.0,
        min=60,
        help="""
        Seconds until a test that could not run (a node failed, Slurm did not answer) is retried.

        Example::

            c.Workshop.again_after = 600
        """,
    ).tag(config=True)

    queue_patience = Float(
        24 * 3600.0,
        min=60,
        help="""
        Maximum seconds that a build or test waits in Slurm's queue before it is cancelled.

        Example::

            c.Workshop.queue_patience = 3600
        """,
    ).tag(config=True)

    log_days = Float(
        90.0,
        min=1,
        help="""
        Days after which the log of a build or test is deleted; its result is kept. For users' own
        environments, the logs of the newest 20 tests are kept, until the environment is removed.

        Example::

            c.Workshop.log_days = 30
        """,
    ).tag(config=True)

    def _images_default(self) -> Images:
        return Images(parent=self)

    def _registries_default(self) -> Registries:
        return Registries(parent=self)
