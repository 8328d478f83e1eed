"""Images per second, measured by benchmark notebooks: sessions report, everyone may read."""

from __future__ import annotations

import time

from portal.catalog.offers.benchmarks import measured
from portal.errors import Conflict, InvalidRequest, NotFound, TooManyRequests
from portal.models import Frozen
from portal.models.catalog.catalog import Measured, Measurement, MeasurementReport
from portal.models.cluster.cluster import Job
from portal.models.session.session import SessionRecord
from portal.telemetry.rate_limit import RateLimit

from ..base.endpoint import Endpoint, Operation
from ..base.own_session import OwnSession
from .environments import as_seen_by_catalog

_pace = RateLimit(least=1.0, gap=0.0)  # a benchmark takes longer; a loop must not fill the table


class OwnMeasurements(OwnSession):
    """``session/measurements``: measurements reported by a session."""

    path = "session/measurements"

    @Operation(
        "Report the images per second of a benchmark in this session.",
        body=MeasurementReport,
        errors=(409, 429),
    )
    async def on_post(self) -> None:
        """Use the session's own token only.

        Type and number of GPUs are those that Slurm gave to the session's job; no more than that
        can have been used.
        """
        if _pace.admit((self.person.name, self.server), time.monotonic()):
            raise TooManyRequests(
                "Only one measurement per second is accepted. Send it again later."
            )
        record, job = await self.own()
        if not job.state.running:
            raise Conflict("This session is not running.")
        simulated = self.parts.telemetry.simulated
        gpus = used_gpus(self.body, job, simulated=simulated)
        await self.parts.store.measurements.add_measurement(
            Measurement(
                environment=record.environment,
                version=await self._version(record),
                benchmark=self.body.benchmark,
                # "gpu" is what Slurm has where it knows no types.
                gpu_type=(job.gpu_type or "gpu") if gpus else "",
                gpus=gpus,
                precision=self.body.precision,
                images_per_second=self.body.images_per_second,
                simulated=simulated and gpus > 0,
                person=record.user,
                session_id=record.id,
                at=time.time(),
            )
        )

    async def _version(self, record: SessionRecord) -> int | None:
        """Return the version of the environment that the session runs in.

        None if it was published later, or never.
        """
        version = (await self.parts.store.versions.published()).get(record.environment)
        if version is None or (version.published_at or 0.0) > record.submitted_at:
            return None
        return version.number


def used_gpus(report: MeasurementReport, job: Job, *, simulated: bool) -> int:
    """Return the number of GPUs that it was measured on.

    If GPUs are simulated, no framework finds any: what was measured on CPUs stands for all of the
    job's, marked as simulated. Raises InvalidRequest for more GPUs than the job has.
    """
    if report.gpus > job.gpus:
        raise InvalidRequest(
            f"This session has {job.gpus} GPUs; {report.gpus} cannot have been used.", "gpus"
        )
    return job.gpus if simulated and not report.gpus else report.gpus


class Measurements(Frozen):
    """Measurements in an environment."""

    items: tuple[Measured, ...]


class EnvironmentMeasurements(Endpoint):
    """Measurements in an environment, by its name."""

    path = "environments/{name}/measurements"
    parameters = {"name": r"[a-z0-9._-]{1,63}"}

    @Operation(
        "Benchmark results of an environment, in images per second, by GPU type, number of "
        "GPUs and precision."
    )
    async def on_get(self, name: str) -> Measurements:
        """Return those of an environment that you may use; any other is not found."""
        catalog = self.parts.catalog
        await catalog.load()
        person = as_seen_by_catalog(self.person)
        if name not in {environment.name for environment in catalog.visible_to(person)}:
            raise NotFound(f"There is no environment '{name}' that you may use.")
        return Measurements(
            items=measured(await self.parts.store.measurements.of_environment(name))
        )


ENDPOINTS = (OwnMeasurements, EnvironmentMeasurements)
