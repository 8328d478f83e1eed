"""Runs: their start by a session, the reports of their points, and what their user sees."""

from __future__ import annotations

from . import (
    again,
    ask,
    choices,
    comparison,
    curves,
    folders,
    logged,
    outputs,
    record,
    reports,
    runs,
    schedules,
    shares,
    start,
    tensorboard,
    values,
)

ENDPOINTS = (
    *comparison.ENDPOINTS,
    *curves.ENDPOINTS,
    *record.ENDPOINTS,
    *ask.ENDPOINTS,
    *outputs.ENDPOINTS,
    *logged.ENDPOINTS,
    *again.ENDPOINTS,
    *choices.ENDPOINTS,
    *folders.ENDPOINTS,
    *reports.ENDPOINTS,
    *shares.ENDPOINTS,
    *start.ENDPOINTS,
    *tensorboard.ENDPOINTS,
    *values.ENDPOINTS,
    *schedules.ENDPOINTS,  # before {run}: 'schedules' is none
    *runs.ENDPOINTS,
)
