"""Runs: their start by a session, the reports of their points, and what their user sees."""

from __future__ import annotations

from . import (
    again,
    ask,
    bests,
    choices,
    comparison,
    curves,
    folders,
    form,
    logged,
    outputs,
    record,
    reports,
    runs,
    schedules,
    shares,
    start,
    tensorboard,
    use,
    values,
)

ENDPOINTS = (
    *comparison.ENDPOINTS,
    *curves.ENDPOINTS,
    *record.ENDPOINTS,
    *ask.ENDPOINTS,
    *bests.ENDPOINTS,
    *outputs.ENDPOINTS,
    *logged.ENDPOINTS,
    *again.ENDPOINTS,
    *choices.ENDPOINTS,
    *folders.ENDPOINTS,
    *form.ENDPOINTS,
    *reports.ENDPOINTS,
    *shares.ENDPOINTS,
    *start.ENDPOINTS,
    *tensorboard.ENDPOINTS,
    *use.ENDPOINTS,
    *values.ENDPOINTS,
    *schedules.ENDPOINTS,  # before {run}: 'schedules' is none
    *runs.ENDPOINTS,
)
