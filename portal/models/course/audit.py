"""Actions of courses in the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ..audit import AuditedAction


class CourseAudit(AuditedAction):
    """Action on a course, its members and their sessions."""

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

    @classmethod
    def special(cls) -> Mapping[Self, str]:
        return {
            cls.ENROL: "Enrol members",
            cls.DISMISS: "Remove member",
            cls.HAND_OUT: "Hand out files",
            cls.TAKE_BACK: "Take back files",
            cls.COLLECT: "Collect files",
        }
