"""Actions of projects in the audit log."""

from __future__ import annotations

from portal.models.audit import AuditedAction


class ProjectAudit(AuditedAction):
    """Action on a project and its members."""

    CREATE_PROJECT = "create-project"
    EDIT_PROJECT = "edit-project"
    IMPORT_PROJECT = "import-project"
    EXPORT_PROJECT = "export-project"
    APPROVE_PROJECT = "approve-project"
    REFUSE_PROJECT = "refuse-project"
    ARCHIVE_PROJECT = "archive-project"
    RESTORE_PROJECT = "restore-project"
    SET_PROJECT_MEMBERS = "set-project-members"
    REMOVE_PROJECT_MEMBER = "remove-project-member"
    LEAVE_PROJECT = "leave-project"
    HAND_OVER_PROJECT = "hand-over-project"
    STOP_PROJECT_SESSION = "stop-project-session"
    MISS_PROJECT_OWNER = "miss-project-owner"
