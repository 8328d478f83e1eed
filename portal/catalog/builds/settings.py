"""Settings of builds and tests: how many at once, how often, for how long."""

from __future__ import annotations

from traitlets import Bool, Float, Instance, Integer
from traitlets.config import LoggingConfigurable

from portal.images.registry.registry import Registries
from portal.images.settings import Images
from portal.setting import setting


class BuildSettings(LoggingConfigurable):
    """Settings of a BuildScheduler, and those of images and registries."""

    images = Instance(Images)
    registries = Instance(Registries)

    max_builds = setting(
        Integer(2, min=1),
        "Maximum number of concurrent image builds; others wait.",
        "c.BuildScheduler.max_builds = 4",
    )

    max_tests = setting(
        Integer(4, min=1),
        "Maximum number of smoke tests that are queued in Slurm or running.",
        "c.BuildScheduler.max_tests = 8",
    )

    max_gpu_tests = setting(
        Integer(2, min=1),
        """Maximum number of these tests that use GPUs, so that testing a catalog takes only a few
        GPUs from users.""",
        "c.BuildScheduler.max_gpu_tests = 1",
    )

    interval = setting(
        Float(2.0, min=0.1),
        "Seconds between checks of the logs and jobs of builds and tests.",
        "c.BuildScheduler.interval = 5",
    )

    test_by_itself = setting(
        Bool(True),
        """Automatic tests of container environments that were never tested, or whose image file has
        changed. Each is tested once; after a failure, an admin decides. A test that failed at a
        limit of c.Images.test_resources is repeated when that limit is changed.""",
        "c.BuildScheduler.test_by_itself = False",
    )

    # Seconds until a test that could not run (a node failed, Slurm refused it) is retried. It is
    # retried at once if Slurm's partitions change or the service is restarted.
    again_after = 3600.0

    queue_patience = setting(
        Float(24 * 3600.0, min=60),
        "Maximum seconds that a build or test waits in Slurm's queue before it is cancelled.",
        "c.BuildScheduler.queue_patience = 3600",
    )

    log_days = setting(
        Float(90.0, min=1),
        """Days after which the log of a build or test is deleted; its result is kept. For users'
        own environments, the logs of the newest 20 tests are kept, until the environment is
        removed.""",
        "c.BuildScheduler.log_days = 30",
    )

    def _images_default(self) -> Images:
        return Images(parent=self)

    def _registries_default(self) -> Registries:
        return Registries(parent=self)
