"""Settings of replica sets."""

from __future__ import annotations

from traitlets import Integer
from traitlets.config import Configurable

from portal.models.session.replica_set import MOST_REPLICAS
from portal.setting import setting


class Replicas(Configurable):
    """Limits of a site for sessions that the portal keeps running."""

    per_user = setting(
        Integer(10, min=0, max=MOST_REPLICAS),
        """Maximum number of replicas that a user can have in all replica sets, workers of Dask
        clusters included, at most 100; 0: none.""",
        "c.Replicas.per_user = 4",
    )
