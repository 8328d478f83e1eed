"""Settings of the catalog of models (catalog/)."""

from __future__ import annotations

from traitlets import Unicode
from traitlets.config import Configurable

from portal.setting import setting


class Models(Configurable):
    """Settings of a site for the models that it offers to serve."""

    directory = setting(
        Unicode("/etc/data-scientist-portal/models"),
        """Directory of the catalog of models, ``*.yaml`` or ``*.yml``, one model per file. Changed,
        new and removed files are noticed without a restart. Without the directory, there are
        none.""",
        'c.Models.directory = "/srv/portal/models"',
    )
