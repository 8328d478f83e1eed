"""Settings of clusters."""

from __future__ import annotations

from traitlets import Integer
from traitlets.config import Configurable

from portal.setting import setting


class Clusters(Configurable):
    """Limits of a site for clusters from a notebook."""

    kept_idle = setting(
        Integer(1800, min=60, max=7 * 86_400),
        """Seconds without a client and without a task after which the workers of a kept cluster
        are stopped, from 60 to 604800 (a week). Its scheduler stays until the end of its job.""",
        "c.Clusters.kept_idle = 600",
    )
