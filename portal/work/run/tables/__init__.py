"""Tables of runs."""

from __future__ import annotations

from .conditions import RunConditionTable
from .curves import RunCurveTable
from .folders import RunFolderTable
from .logged import RunLoggedTable
from .notices import RunNoticeTable
from .outputs import RunOutputTable
from .points import RunPointTable
from .reopenings import RunReopenings
from .runs import RunTable
from .schedules import RunScheduleTable
from .searches import RunSearchTable
from .shares import RunShareTable

RUN_TABLES = (
    RunTable,
    RunPointTable,
    RunCurveTable,
    RunConditionTable,
    RunOutputTable,
    RunLoggedTable,
    RunFolderTable,
    RunNoticeTable,
    RunReopenings,
    RunScheduleTable,
    RunSearchTable,
    RunShareTable,
)
