"""The order in which the files of a part begin: the longest first, or one process would be alone
with one of them at the end. With xdist's ``--no-loadscope-reorder``."""

from __future__ import annotations

import pytest

# Seconds on two cores with the other parts beside them, as of November 2026; only their order
# matters, and what is not named is short.
LONGEST = {
    "test_recording.py": 500,
    "test_catalog.py": 450,
    "test_demo.py": 320,
    "test_session.py": 300,
    "test_dashboard.py": 280,
    "test_course_pages.py": 240,
    "test_course_meeting.py": 230,
    "test_outage.py": 230,
    "test_marimo.py": 210,
    "test_idle.py": 200,
    "test_actions.py": 180,
    "test_service.py": 150,
    "test_pages.py": 150,
    "test_starters.py": 150,
    "test_course_grades.py": 140,
    "test_lab_extension.py": 140,
    "test_curate.py": 130,
    "test_images_job.py": 130,
    "test_move.py": 130,
    "test_session_tensorboard.py": 130,
    "test_courses.py": 120,
    "test_work_goes_on.py": 110,
    "test_catalog_offering.py": 100,
    "test_course_session.py": 90,
    "test_launch_firefox.py": 70,
    "test_stepping_clock.py": 70,
    "test_course_start.py": 70,
    "test_full_disk.py": 40,
}


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the tests by their files; those of one file stay as they are."""
    items.sort(key=lambda item: -LONGEST.get(item.path.name, 0))
