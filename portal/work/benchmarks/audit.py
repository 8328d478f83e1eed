"""Actions on benchmarks in the audit log."""

from __future__ import annotations

from portal.models.audit import AuditedAction


class BenchmarkAudit(AuditedAction):
    """Action on the site's results of benchmarks."""

    ADD_BENCHMARK = "add-benchmark"
    REMOVE_BENCHMARK = "remove-benchmark"
