"""Entries of the audit log: who did what to whom, and whether it was allowed."""

from __future__ import annotations

from enum import StrEnum

from . import Frozen


class Outcome(StrEnum):
    """Outcome of an action."""

    DONE = "done"
    REFUSED = "refused"  # not permitted
    FAILED = "failed"  # permitted, but failed


class AuditAction(StrEnum):
    """Action that leaves an entry in the audit log, by its name there."""

    DENIED = "denied"  # access to what belongs to others

    # sessions
    START_SESSION = "start-session"
    STOP_SESSION = "stop-session"
    STOP_IDLE_SESSION = "stop-idle-session"
    EXTEND_SESSION = "extend-session"
    MOVE_SESSION = "move-session"
    CANCEL_MOVE = "cancel-move"
    SNOOZE_SESSION = "snooze-session"
    OPEN_SERVER = "open-server"
    REMOVE_SERVER = "remove-server"
    READ_LOG = "read-log"
    OPEN_LOGS = "open-logs"
    SET_REPLICAS = "set-replicas"
    START_KERNEL = "start-kernel"
    STOP_KERNEL = "stop-kernel"
    REPORT_TELEMETRY = "report-telemetry"

    # runs
    START_RUN = "start-run"
    STOP_RUN = "stop-run"
    RUN_AGAIN = "run-again"
    REPEAT_RUN = "repeat-run"
    DELETE_RUN = "delete-run"
    RESTORE_RUN = "restore-run"
    SHARE_RUN = "share-run"
    UNSHARE_RUN = "unshare-run"
    END_POINT_KERNEL = "end-point-kernel"
    SCHEDULE_RUN = "schedule-run"
    PAUSE_SCHEDULE = "pause-schedule"
    RESUME_SCHEDULE = "resume-schedule"
    DELETE_SCHEDULE = "delete-schedule"

    # the cluster and the site
    CANCEL_JOB = "cancel-job"
    HOLD_JOB = "hold-job"
    RELEASE_JOB = "release-job"
    DRAIN_NODE = "drain-node"
    RESUME_NODE = "resume-node"
    ANNOUNCE = "announce"
    WITHDRAW_ANNOUNCEMENT = "withdraw-announcement"
    MAKE_ADMIN = "make-admin"
    REMOVE_ADMIN = "remove-admin"
    DELETE_USER = "delete-user"

    # the catalog
    CREATE_ENVIRONMENT = "create-environment"
    EDIT_ENVIRONMENT = "edit-environment"
    CHANGE_ENVIRONMENT_FILE = "change-environment-file"
    BUILD_ENVIRONMENT = "build-environment"
    CANCEL_BUILD = "cancel-build"
    RETRY_BUILD = "retry-build"
    TEST_ENVIRONMENT = "test-environment"
    TEST_ENVIRONMENTS = "test-environments"
    CANCEL_TEST = "cancel-test"
    PREVIEW_ENVIRONMENT = "preview-environment"
    PUBLISH_ENVIRONMENT = "publish-environment"
    OFFER_ENVIRONMENT_AGAIN = "offer-again-environment"
    DEPRECATE_ENVIRONMENT = "deprecate-environment"
    WITHDRAW_ENVIRONMENT = "withdraw-environment"
    ROLL_BACK_ENVIRONMENT = "roll-back-environment"
    REGISTER_ENVIRONMENT = "register-environment"
    REMOVE_ENVIRONMENT = "remove-environment"
    REQUEST_ENVIRONMENT = "request-environment"
    ANSWER_REQUEST = "answer-request"
    SET_REGISTRY = "set-registry"
    CHECK_REGISTRY = "check-registry"
    REMOVE_REGISTRY = "remove-registry"

    # courses
    CREATE_COURSE = "create-course"
    EDIT_COURSE = "edit-course"
    COPY_COURSE = "copy-course"
    SUBMIT_COURSE = "submit-course"
    APPROVE_COURSE = "approve-course"
    REFUSE_COURSE = "refuse-course"
    ARCHIVE_COURSE = "archive-course"
    JOIN_COURSE = "join-course"
    ENROL = "enrol"
    DISMISS = "dismiss"
    PREPARE_COURSE = "prepare-course"
    START_COURSE = "start-course"
    CANCEL_COURSE_START = "cancel-course-start"
    COURSE_START_ENDED = "course-start-ended"
    STOP_COURSE_SESSION = "stop-course-session"
    MAKE_RESERVATION = "make-reservation"
    CHANGE_RESERVATION = "change-reservation"
    REMOVE_RESERVATION = "remove-reservation"
    HAND_OUT = "hand-out"
    TAKE_BACK = "take-back"
    FETCH_HANDOUTS = "fetch-handouts"
    COLLECT = "collect"
    CLOSE_COLLECTION = "close-collection"
    DOWNLOAD_COLLECTION = "download-collection"
    MESSAGE_COURSE = "message-course"
    WITHDRAW_MESSAGE = "withdraw-message"
    LOWER_HAND = "lower-hand"
    ASK_TO_HELP = "ask-to-help"
    AGREE_TO_HELP = "agree-to-help"
    REFUSE_HELP = "refuse-help"
    GRANT_HELP = "grant-help"
    END_HELP = "end-help"
    OPEN_ROOM = "open-room"
    CLOSE_ROOM = "close-room"


_SPECIAL = {  # words of the names that say too little
    AuditAction.DENIED: "Access denied",
    AuditAction.OPEN_SERVER: "Open session of another user",
    AuditAction.READ_LOG: "Read log of another user",
    AuditAction.OPEN_LOGS: "Open logs in TensorBoard",
    AuditAction.MOVE_SESSION: "Change resources",
    AuditAction.CANCEL_MOVE: "Cancel change of resources",
    AuditAction.REPEAT_RUN: "Repeat run exactly",
    AuditAction.TEST_ENVIRONMENTS: "Test all environments",
    AuditAction.OFFER_ENVIRONMENT_AGAIN: "Offer environment again",
    AuditAction.ANSWER_REQUEST: "Answer request for environment",
    AuditAction.ENROL: "Enrol members",
    AuditAction.DISMISS: "Remove member",
    AuditAction.HAND_OUT: "Hand out files",
    AuditAction.TAKE_BACK: "Take back files",
    AuditAction.COLLECT: "Collect files",
}
ACTION_WORDS = {
    action.value: _SPECIAL.get(action) or action.value.replace("-", " ").capitalize()
    for action in AuditAction
}
"""Words on pages, by the action's name. Other names in the log are those of former versions."""


class AuditEntry(Frozen):
    """Entry of the append-only audit log. ``detail`` is a sentence without secrets.

    ``action`` is a name such as "stop-session", in old entries perhaps one of a former version;
    ``target`` is the object acted on ("session 8aX…", "job 1234", "node gpu01"), ``owner`` the
    object's owner.
    """

    id: int = 0  # given by the store
    at: float
    actor: str
    action: str
    target: str
    owner: str = ""
    outcome: Outcome
    detail: str = ""
    address: str = ""  # where the request came from
