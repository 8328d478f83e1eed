"""Actions of projects in the audit log."""

from __future__ import annotations

from portal.models.audit import AuditedAction


class ProjectAudit(AuditedAction):
    """Action on a project and its members."""

    CREATE_PROJECT = "create-project"
    EDIT_PROJECT = "edit-project"
    IMPORT_PROJECT = "import-project"
    EXPORT_PROJECT = "export-project"
    FORK_PROJECT = "fork-project"
    REPEAT_PROJECT_RUN = "repeat-project-run"
    APPROVE_PROJECT = "approve-project"
    REFUSE_PROJECT = "refuse-project"
    ARCHIVE_PROJECT = "archive-project"
    RESTORE_PROJECT = "restore-project"
    SET_PROJECT_STORAGE = "set-project-storage"
    REMOVE_PROJECT_STORAGE = "remove-project-storage"
    SET_PROJECT_MEMBERS = "set-project-members"
    REMOVE_PROJECT_MEMBER = "remove-project-member"
    LEAVE_PROJECT = "leave-project"
    HAND_OVER_PROJECT = "hand-over-project"
    STOP_PROJECT_SESSION = "stop-project-session"
    MISS_PROJECT_OWNER = "miss-project-owner"
    ASK_TO_VISIT = "ask-to-visit"
    AGREE_TO_VISIT = "agree-to-visit"
    REFUSE_VISIT = "refuse-visit"
    GRANT_VISIT = "grant-visit"
    ENTER_VISIT = "enter-visit"
    END_VISIT = "end-visit"
