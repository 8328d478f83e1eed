"""Actions on endpoints in the audit log."""

from __future__ import annotations

from portal.models.audit import AuditedAction


class EndpointAudit(AuditedAction):
    """Action on an endpoint."""

    SET_ENDPOINT = "set-endpoint"
    ADD_ENDPOINT_VERSION = "add-endpoint-version"
    SET_ENDPOINT_SHARES = "set-endpoint-shares"
    DELETE_ENDPOINT = "delete-endpoint"
    TEST_MODEL = "test-model"
    STOP_ENDPOINT = "stop-endpoint"  # its owner left
