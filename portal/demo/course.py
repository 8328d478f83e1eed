"""The demo's course, "Deep Learning 101": created at the first start, never changed later."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from string import Template

from ..errors import PortalError
from .daemons.process import Daemon
from .home import Home
from .part import DemoPart
from .people import People
from .showcase.course_past import newest_meeting, removal

NAME = "dl101"
_PAST, _WEEKS = 1, 20  # of the course before and after today


def make_course(
    hub: Daemon, deploy: Path, home: Home, people: People, say: Callable[[str], None]
) -> None:
    """Import the course with `portal courses import`, as the Hub's account, unless an earlier start
    did. Raises PortalError if the import fails."""
    shared = home.data / "courses" / NAME
    file = shared / "course.yaml"  # renamed to this once the course exists
    if file.exists():
        return
    handouts, data = shared / "handouts", shared / "data"
    shutil.copytree(deploy / "demo/courses" / NAME, handouts, dirs_exist_ok=True)
    data.mkdir(exist_ok=True)
    (data / "README.txt").write_text("Shared data of the course, read-only for its members.\n")
    text = Template((deploy / "demo/courses/deep-learning-101.yaml.in").read_text()).substitute(
        begins=date.today() - timedelta(weeks=_PAST),
        ends=date.today() + timedelta(weeks=_WEEKS),
        handouts=handouts,
        data=data,
        instructors=", ".join(people.instructors),
        students=", ".join(people.students),
    )
    new = file.with_suffix(".new.yaml")
    new.write_text(text)
    config = f"-f={deploy / 'demo' / 'jupyterhub_config.py'}"
    portal = [sys.executable, "-m", "portal", "courses"]
    done = hub.once([*portal, "import", "--approved", config, str(new)])
    # The course also exists if an earlier start ended before the rename.
    if done.returncode and hub.once([*portal, "export", config, NAME]).returncode:
        raise PortalError(f"The demo's course was not created: {done.stdout}{done.stderr}")
    new.rename(file)
    say("course: Deep Learning 101, taught by " + " and ".join(people.instructors))


PART = DemoPart(make_course, partial(newest_meeting, NAME), removal)
