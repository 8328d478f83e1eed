"""Scenes of the film: two minutes with Ada, Grace and Barbara."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from portal.demo.daemons.slapd import PASSWORD

from .demo import IMAGES, SERVICE, START, Demo, environment, label_of
from .film import SIZE, Film
from .lab import Lab
from .neighbours import QUESTION, RUNNING, WAITING, class_in_session, jobs
from .projector import video

PLAY = """() => document.body.insertAdjacentHTML("beforeend", `
  <svg viewBox="-50 -50 100 100" aria-hidden="true" style="position: fixed; inset: 0; margin: auto;
    width: 180px; z-index: 9999">
    <circle r="46" fill="#1f2328" fill-opacity="0.8" stroke="#ffffff" stroke-width="3" />
    <path d="M -15 -24 L 26 0 L -15 24 Z" fill="#ffffff" />
  </svg>`)"""
WAIT = 3.0  # seconds that remain of a long wait


def tour(demo: Demo) -> None:
    """Record the film of the README."""
    demo.stop_all("ada")
    poster(demo)
    film = Film()
    with class_in_session(demo) as student, jobs(demo, *RUNNING):
        ada(demo, film)
        grace(demo, film)
        barbara(demo, film, student)
    data = video(demo.browser, film.reel())
    (IMAGES / "tour.webm").write_bytes(data)
    print(f"tour: done, {len(data) / 2**20:.2f} MiB", flush=True)
    demo.stop_all("ada")


def poster(demo: Demo) -> None:
    """Take the picture that stands for the film: the launch page with a play button."""
    with demo.visit("ada", "/hub/spawn") as page:
        label_of(page, "environment", environment(page)).click()
        label_of(page, "gpus", "2").click()
        label_of(page, "gpu_type", "v100").click()
        expect(page.locator("#launch-starts")).not_to_be_empty()
        page.evaluate(PLAY)
        demo.picture(page, "tour")


def ada(demo: Demo, film: Film) -> None:
    """Work of a data scientist."""
    with demo.page(SIZE) as page:
        page.goto(f"{demo.url}/hub/login?next=/hub/spawn")
        film.aim(page)
        sign_in(film, page)
        name = launch(film, page)
        wait_for_the_session(film, page)
        notebook(film, page, name)
        resources(film, page)
        other = page.context.new_page()  # JupyterLab asks before it is left
        other.goto(f"{demo.url}{SERVICE}sessions")
        sessions(film, other)
        catalog(film, other, name)
        film.stop()


def sign_in(film: Film, page: Any) -> None:
    """Login form."""
    film.caption("Sign in with the password of the directory (LDAP)")
    film.hold(1.5)
    film.press(page.get_by_label("User name"))
    film.type("ada")
    film.press(page.get_by_label("Password", exact=True))
    film.type(PASSWORD)
    film.press(page.get_by_role("button", name="Sign in"))
    page.wait_for_url(re.compile("/hub/spawn"))


def launch(film: Film, page: Any) -> str:
    """Launch page; return the name of the environment."""
    film.caption("Choose an environment, GPUs and a time limit, and see what is free")
    film.hold(2.5)
    name = environment(page)
    film.press(label_of(page, "environment", name))
    film.press(label_of(page, "gpus", "2"))
    film.press(label_of(page, "gpu_type", "v100"))
    expect(page.locator("#launch-starts")).not_to_be_empty()
    film.hold(1.0)
    film.caption("Slurm's estimate of the start, before anything is submitted")
    film.point(page.locator("#launch-starts"))
    film.hold(2.5)
    start = page.get_by_role("button", name="Start", exact=True)
    film.point(start)
    film.caption("One Slurm job, submitted as the user; the page says what is happening")
    film.press(start)
    return name


def wait_for_the_session(film: Film, page: Any) -> None:
    """Progress page, until JupyterLab opens."""
    page.wait_for_url(re.compile("/hub/spawn-pending/ada"))
    with film.at_most(WAIT + 1):
        page.wait_for_url(re.compile("/user/ada/lab"), timeout=START)


def notebook(film: Film, page: Any, name: str) -> None:
    """JupyterLab: a notebook, and the session in the status bar."""
    film.caption("JupyterLab in a container on the node")
    lab = Lab(page)
    with film.at_most(WAIT):
        path = lab.work(name)
        lab.open(path)
        lab.status()
    film.press(lab.first_cell())
    for _ in range(lab.cells(path)):
        page.keyboard.press("Shift+Enter")
        with film.at_most(WAIT / 2):
            lab.idle()
        film.hold(0.8)
    film.hold(1.5)
    film.type("!squeue --me")
    page.keyboard.press("Shift+Enter")
    lab.idle()
    film.hold(2.5)
    page.keyboard.press("Control+s")  # JupyterLab asks about unsaved notebooks
    film.caption("TensorBoard, next to the notebook")
    with film.at_most(WAIT / 2):
        entry = lab.menu_of_logs()
    film.press(entry)
    with film.at_most(WAIT):
        lab.tensorboard()
    film.hold(3.0)
    film.caption("Time left, GPUs and memory of the session are in the status bar")
    film.press(lab.status())
    expect(page.locator("#portal-session-panel")).to_contain_text("busy")
    film.hold(3.5)


def resources(film: Film, page: Any) -> None:
    """Form for other resources, from the session's panel."""
    film.caption("More GPUs for a running session: a second job replaces the first")
    film.press(page.locator("#portal-session-panel").get_by_role("button", name="Change resources"))
    dialog = page.get_by_role("dialog")
    field = dialog.locator("#move-gpus")
    film.press(field)
    field.fill("4")
    film.hold(0.5)
    with film.at_most(1.5):
        expect(dialog.get_by_role("status")).not_to_be_empty()
        page.wait_for_timeout(1500)  # the form asks when the last change is half a second old
    film.hold(3.5)
    page.keyboard.press("Escape")


def sessions(film: Film, page: Any) -> None:
    """Sessions page."""
    expect(page.locator("#living .entry")).to_have_count(1)
    expect(page.locator("#ended")).not_to_have_attribute("aria-busy", "true")
    film.aim(page)
    film.caption("Sessions: what runs, how each one ended and used its GPUs")
    film.hold(2.5)
    film.scroll(420)
    film.hold(3.0)


def catalog(film: Film, page: Any, name: str) -> None:
    """Catalog, and the page of an environment."""
    film.caption("Catalog: environments that have passed their tests on this cluster")
    film.scroll(-2000)
    film.press(page.get_by_role("link", name="Catalog", exact=True))
    page.wait_for_url(re.compile("/catalog"))
    film.hold(2.5)
    film.press(page.locator(f"#tiles [data-name='{name}'] h3 a"))
    page.wait_for_load_state("networkidle")
    film.hold(3.0)


def grace(demo: Demo, film: Film) -> None:
    """Cluster and catalog in the eyes of an admin."""
    with jobs(demo, *WAITING), demo.visit("grace", SERVICE, SIZE) as page:
        expect(page.locator("#jobs tbody tr")).not_to_have_count(1)
        film.aim(page)
        film.caption("Grace, an admin, sees every node, GPU and job, live")
        film.hold(2.5)
        film.point(page.locator("#grid .gpu-busy").first)
        film.hold(3.0)
        film.scroll(600)
        film.caption("She can stop and hold jobs, and drain nodes; the audit log records it")
        film.hold(4.0)
        film.caption("Curating: test an environment on the cluster, then publish it")
        film.scroll(-2000)
        film.press(page.get_by_role("link", name="Curate"))
        expect(page.locator("#environments tbody tr").first).to_be_visible()
        film.hold(1.5)
        film.press(page.locator("#environments tbody a").first)
        page.wait_for_url(re.compile("/curate/."))
        film.press(page.get_by_role("link", name="Tests", exact=True))
        page.wait_for_url(re.compile("/tests"))
        expect(page.locator("#tests")).not_to_be_empty()
        film.hold(3.0)
        film.stop()


def barbara(demo: Demo, film: Film, student: Any) -> None:
    """Course in the eyes of its instructor; ``student`` is the page of the one with a question."""
    with demo.visit("barbara", f"{SERVICE}courses/dl101", SIZE) as page:
        expect(page.locator("#readiness li").first).to_be_visible()
        film.aim(page)
        film.caption("Barbara teaches: is the course ready for thirty students?")
        film.hold(4.0)
        film.caption("The live board shows who works, waits or asks for help")
        film.press(page.get_by_role("link", name="Live board"))
        expect(page.locator("#tiles")).to_contain_text(QUESTION)
        film.hold(3.0)
        film.caption("Help in a student's session, if the student agrees")
        film.press(page.locator("#tiles").get_by_role("button", name="Help").first)
        film.hold(2.0)
        student.get_by_role("dialog").get_by_role("button", name="Agree").click()
        with film.at_most(1.0):
            expect(page.get_by_role("dialog")).to_contain_text("You have access until")
        film.hold(3.0)
        page.keyboard.press("Escape")
        film.caption("“make run” starts all of this on your own machine")
        film.hold(3.0)
        film.stop()
