"""Settings of nbgrader in a session of a course with grades (https://nbgrader.readthedocs.io,
"Configuration options"). They take precedence over a person's own."""

import os

c = get_config()  # noqa: F821  given by traitlets
c.CourseDirectory.course_id = os.environ["PORTAL_COURSE"]
c.Exchange.root = os.environ["PORTAL_COURSE_EXCHANGE"]
