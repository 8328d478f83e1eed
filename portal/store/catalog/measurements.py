"""Measurements of benchmark notebooks at this site. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Double, Row, delete, func, select

from portal.models.catalog.catalog import Measurement

from ..engine.columns import COUNT, NAME, TIME, filled, numbered, optional
from ..engine.rows import ModelTable

measurements = numbered(
    "measurements",
    *filled(NAME, "environment", index=True),
    *optional(COUNT, "version"),
    *filled(NAME, "benchmark", "gpu_type", "precision", "person", "session_id"),
    *filled(COUNT, "gpus", "simulated"),
    *filled(Double, "images_per_second"),
    *filled(TIME, "at"),
)
# Per person and environment: an endless benchmark pushes out only its owner's measurements.
_MOST = 100
_READ = 2000


class MeasurementTable(ModelTable[Measurement]):
    """The table of measurements. Every method raises StoreUnavailable."""

    table, model = measurements, Measurement

    async def add_measurement(self, measurement: Measurement) -> None:
        """Insert a measurement; of many by a person in this environment, the oldest is deleted."""
        await self._database.run(lambda to: _add(to, measurement), write=True)

    async def of_environment(self, environment: str) -> list[Measurement]:
        """Return an environment's measurements, newest first; at most 2000."""
        query = (
            select(measurements)
            .where(measurements.c.environment == environment)
            .order_by(measurements.c.id.desc())
            .limit(_READ)
        )
        return await self._models(query)

    async def best(self) -> dict[str, dict[str, tuple[float, bool]]]:
        """Return the most images per second that were measured, and whether the GPUs were
        simulated: by environment, then by GPU type ("" is on CPUs)."""
        columns = measurements.c
        most = func.max(columns.images_per_second)
        query = (
            select(columns.environment, columns.gpu_type, columns.simulated, most)
            .group_by(columns.environment, columns.gpu_type, columns.simulated)
            .order_by(columns.simulated.desc())  # real ones override simulated ones
        )
        rows = await self._rows_of(query)
        best: dict[str, dict[str, tuple[float, bool]]] = {}
        for name, gpu_type, simulated, value in rows:
            best.setdefault(name, {})[gpu_type] = (float(value), bool(simulated))
        return best

    def _made(self, row: Row[Any]) -> Measurement:
        values = row._asdict()
        del values["id"]
        return Measurement.model_validate(values)


def _add(connection: Connection, measurement: Measurement) -> None:
    values = measurement.model_dump() | {"simulated": int(measurement.simulated)}
    connection.execute(measurements.insert().values(values))
    own = (measurements.c.environment == measurement.environment) & (
        measurements.c.person == measurement.person
    )
    oldest = (
        select(measurements.c.id)
        .where(own)
        .order_by(measurements.c.id.desc())
        .offset(_MOST - 1)
        .limit(1)
        .scalar_subquery()
    )
    connection.execute(delete(measurements).where(own, measurements.c.id < oldest))
