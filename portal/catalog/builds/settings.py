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
        Maximum number of images that are built at the same time; others wait.

        Example::

            c.Workshop.max_builds = 4
        """,
    ).tag(config=True)

    max_tests = Integer(
        4,
        min=1,
        help="""
        Maximum number of smoke tests that wait in Slurm's queue or run at the same time.

        Example::

            c.Workshop.max_tests = 8
        """,
    ).tag(config=True)

    max_gpu_tests = Integer(
        2,
        min=1,
        help="""
        Maximum number of these tests on GPUs. By default, testing the catalog occupies at most two
        GPUs.

        Example::

            c.Workshop.max_gpu_tests = 1
        """,
    ).tag(config=True)

    interval = Float(
        2.0,
        min=0.1,
        help="""
        Seconds between two checks of the logs and jobs of builds and tests.

        Example::

            c.Workshop.interval = 5
        """,
    ).tag(config=True)

    test_by_itself = Bool(
        True,
        help="""
        Whether container environments that were never tested, or whose image file has changed, are
        tested automatically. Each is tested once; an admin must repeat a failed test.

        Example::

            c.Workshop.test_by_itself = False
        """,
    ).tag(config=True)

    again_after = Float(
        3600.0,
        min=60,
        help="""
        Seconds until a test that could not run (a node failed, Slurm did not answer) is repeated.

        Example::

            c.Workshop.again_after = 600
        """,
    ).tag(config=True)

    queue_patience = Float(
        24 * 3600.0,
        min=60,
        help="""
        Seconds that a build or test may wait in Slurm's queue before it is cancelled.

        Example::

            c.Workshop.queue_patience = 3600
        """,
    ).tag(config=True)

    log_days = Float(
        90.0,
        min=1,
        help="""
        Days after which the log of a build or test is removed; its result is kept. Of a user's own
        environment, the logs of the newest 20 tests are kept until it is removed.

        Example::

            c.Workshop.log_days = 30
        """,
    ).tag(config=True)

    def _images_default(self) -> Images:
        return Images(parent=self)

    def _registries_default(self) -> Registries:
        return Registries(parent=self)
