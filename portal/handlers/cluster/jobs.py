"""``api/v1/jobs``: portal sessions and all other Slurm jobs, as the viewer may see them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from portal.dashboard.jobs import queue_reason
from portal.errors import NotFound
from portal.models.cluster.cluster import Job
from portal.models.cluster.dashboard import JobItem
from portal.models.person import Person
from portal.slurm.control.control import JOB_ID

from ..base.csv import MEDIA, CsvEndpoint
from ..base.endpoint import Endpoint, Operation, Query
from ..base.listing import Text, Words, among, found, matching, paged
from ..base.paging import Page, PageQuery
from . import sort_cache

if TYPE_CHECKING:
    from portal.dashboard import ClusterView


class JobFilter(Query):
    """Filters and order of the jobs."""

    partition: Words = None
    type: Words = None  # of its GPUs
    user: Words = None
    state: Words = None  # Slurm's words, such as "running,completing"
    node: Words = None
    account: Words = None
    environment: Words = None
    reason: Words = None  # for which it waits: a QueueReason, such as "resources,priority"
    portal: bool | None = None
    mine: bool | None = None
    text: Text = None
    sort: Literal[
        "id", "-id", "state", "-state", "user", "-user", "name", "-name", "account", "-account",
        "environment", "-environment", "partition", "-partition", "nodes", "-nodes",
        "gpus", "-gpus", "cpus", "-cpus", "memory", "-memory", "submit_time", "-submit_time",
        "start_time", "-start_time", "end_time", "-end_time", "expected_start", "-expected_start",
        "time_limit", "-time_limit", "position", "-position",
    ] = "-id"  # fmt: skip


class JobQuery(PageQuery, JobFilter):
    """Filters, order and page of the jobs."""


class JobsEndpoint(Endpoint):
    """All jobs."""

    path = "jobs"

    @Operation("List jobs.", query=JobQuery)
    async def on_get(self) -> Page[JobItem]:
        """Return null for user, name, account, environment and session_id of others' jobs.

        They are set if you may see whose the jobs are; filters, search and order see no more than
        you.
        """
        return await paged(selected, self.view, self.person, query=self.query)


class JobsCsv(CsvEndpoint):
    """All jobs, as a file."""

    path = "jobs.csv"
    columns = tuple(JobItem.model_fields)
    times = frozenset({"submit_time", "start_time", "expected_start", "end_time"})

    @Operation("The jobs as CSV.", query=JobFilter, media=MEDIA)
    async def rows(self) -> Sequence[JobItem]:
        return await asyncio.to_thread(selected, self.view, self.person, self.query)


class JobEndpoint(Endpoint):
    """Job by its id."""

    path = "jobs/{job_id}"
    parameters = {"job_id": JOB_ID}

    @Operation("Get a job.")
    async def on_get(self, job_id: str) -> JobItem:
        self.view  # noqa: B018 - 503 while there is nothing to tell
        item = self.parts.dashboard.job_for(self.person, job_id)
        if item is None:
            raise NotFound(f"Slurm has no job {job_id}, or it ended too long ago.")
        return item


ENDPOINTS = (JobsEndpoint, JobsCsv, JobEndpoint)


def selected(view: ClusterView, person: Person, query: JobFilter) -> Sequence[JobItem]:
    """Return the jobs that ``query`` asks for, in its order, as this person may see them."""
    return chosen(view, sort_cache.jobs(view, person, query.sort), query)


def chosen(view: ClusterView, items: Sequence[JobItem], query: JobFilter) -> Sequence[JobItem]:
    """Return the ``items`` that pass the filters."""
    items = matching(items, query, ("partition", "user", "state", "account", "environment"))
    if query.type:
        # Slurm names the type of what a job holds only where the site accounts for types.
        wanted = among(query.type)
        holders = {gpu.job_id for gpu in view.gpus.values() if gpu.type.casefold() in wanted}
        items = [item for item in items if item.gpu_type.casefold() in wanted or item.id in holders]
    if query.node:
        nodes = among(query.node)
        items = [item for item in items if nodes & {name.casefold() for name in item.nodes}]
    if query.reason:
        reasons, jobs = among(query.reason), view.snapshot.jobs
        items = [item for item in items if _waits_for(jobs[item.id], reasons)]
    if query.portal is not None:
        items = [item for item in items if item.portal is query.portal]
    if query.mine is not None:
        items = [item for item in items if item.mine is query.mine]
    if query.text:
        has = found(query.text)
        items = [
            item
            for item in items
            if has(
                item.id,
                item.user,
                item.name,
                item.account,
                item.environment,
                item.partition,
                item.words,
                *item.nodes,
            )
        ]
    return items


def _waits_for(job: Job, reasons: Collection[str]) -> bool:
    return job.state.pending and queue_reason(job) in reasons
