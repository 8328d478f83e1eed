"""Former name of ``portal.paths``, for configurations of sites. It goes with the next version."""

from __future__ import annotations

import warnings

from .paths import data_path

__all__ = ["data_path"]

warnings.warn("portal.where is now called portal.paths.", FutureWarning, stacklevel=2)
