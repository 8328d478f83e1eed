"""Entries of the audit log: who did what to whom, and whether it was allowed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from . import Frozen


class Outcome(StrEnum):
    """Outcome of an action."""

    DONE = "done"
    REFUSED = "refused"  # not permitted
    FAILED = "failed"  # permitted, but failed


class AuditedAction(StrEnum):
    """Action that leaves an entry in the audit log, by its name there. A feature has a subclass
    with its own (`Feature.actions`)."""

    @classmethod
    def special(cls) -> Mapping[Self, str]:
        """Return the words of the names that say too little."""
        return {}


class AuditAction(AuditedAction):
    """Action of the portal itself."""

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
    BACK_UP = "back-up"

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

    @classmethod
    def special(cls) -> Mapping[Self, str]:
        return {
            cls.DENIED: "Access denied",
            cls.OPEN_SERVER: "Open session of another user",
            cls.READ_LOG: "Read log of another user",
            cls.OPEN_LOGS: "Open logs in TensorBoard",
            cls.MOVE_SESSION: "Change resources",
            cls.CANCEL_MOVE: "Cancel change of resources",
            cls.REPEAT_RUN: "Repeat run exactly",
            cls.TEST_ENVIRONMENTS: "Test all environments",
            cls.OFFER_ENVIRONMENT_AGAIN: "Offer environment again",
            cls.ANSWER_REQUEST: "Answer request for environment",
        }


ACTION_WORDS: dict[str, str] = {}
"""Words on pages, by the action's name. Other names in the log are those of former versions."""


def add_actions(*types: type[AuditedAction]) -> None:
    """Add actions to ``ACTION_WORDS``."""
    for added in types:
        special = added.special()
        for action in added:
            usual = action.value.replace("-", " ").capitalize()
            ACTION_WORDS[action.value] = special.get(action, usual)


add_actions(AuditAction)


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
