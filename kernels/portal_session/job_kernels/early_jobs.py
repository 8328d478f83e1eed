"""Jobs of new kernels, requested by the session's server before their relays are there to ask.

A relay takes a quarter of a second to load. Slurm starts batch jobs once a second, so the job waits
for Slurm meanwhile, and its starter for the relay's address in the record.
"""

from __future__ import annotations

import os
from typing import Any

from ..situation import in_thread
from . import record as records
from .broker import Kernels
from .record import BadRecord, Record


class EarlyJobs:
    """Requests for jobs of kernels that this server is about to start."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._session = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")

    async def ask(self, id: str, request: dict[str, Any], spec: str) -> None:
        """Request the job of the kernel ``id``, unless it has a record: then it may have a job
        already. ``request``, ``spec``: as in a record."""
        if await in_thread(self._noted, id, request, spec):
            self._kernels.begin({"id": id, **request})

    def _noted(self, id: str, request: dict[str, Any], spec: str) -> bool:
        """Write a record without an address, by which the job is ended if its relay never comes
        (`adoption`); return False if there is one, or none can be written."""
        try:
            if records.path_of(id).exists():
                return False
            records.write(Record(id, request, "", "", "", session=self._session, spec=spec))
        except BadRecord:
            return False  # the relay says why
        return True
