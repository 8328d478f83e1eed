"""Login with OpenID Connect: a real provider, a Hub with its proxy and service, and a browser."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import SOON, chromium
from course_made import course, made
from machine import patience
from oidc_provider import OidcProvider, oidc_provider
from test_service import ENVIRONMENT, ENVIRONMENTS, Hub, names

pytestmark = [
    pytest.mark.hub,
    pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning"),  # the provider's own
]

ROOT = Path(__file__).resolve().parents[3]
API = "/services/portal/api/v1"
CONFIG = """
from pathlib import Path
for _file in sorted(Path({parts!r}).glob("*.py")):
    if _file.name != "20-service.py":  # it is loaded above
        load_subconfig(str(_file))
c.JupyterHub.load_groups = {{}}
c.JupyterHub.template_paths = [{templates!r}]
c.JupyterHub.spawner_class = "spawners.spawner.PortalSpawner"
c.JupyterHub.allow_named_servers = True
c.JupyterHub.authenticator_class = "portal.directory.oidc.OIDCAuthenticator"
c.Authenticator.manage_groups = True
c.Authenticator.admin_users = set()
c.Authenticator.auth_refresh_age = 1
c.OIDCAuthenticator.update({settings!r})
c.OIDCAuthenticator.allow_all = False
c.OIDCAuthenticator.allowed_groups = {{"gpu-users"}}
c.OIDCAuthenticator.admin_groups = {{"portal-admins"}}
c.OIDCAuthenticator.instructor_groups = {{"teachers"}}
c.SlurmRunner.bin_dir = "/nowhere"
c.Courses.roster_interval = 1
c.Notices.smtp_host = "127.0.0.1"
c.Notices.smtp_port = 9
c.Notices.encryption = "none"
c.Notices.sender = "portal@example.org"
c.Notices.public_url = "https://gpu.example.org/"
"""


class Site:
    """The provider and the Hub."""

    def __init__(self, provider: OidcProvider, hub: Hub) -> None:
        self.provider, self.hub = provider, hub

    def open(self) -> httpx.Client:
        """Somebody's browser, without its scripts."""
        client = self.hub.anyone(Accept="text/html", **{"Sec-Fetch-Mode": "navigate"})
        client.follow_redirects = True
        return client

    def answer(self, client: httpx.Client, subject: str) -> httpx.Response:
        """The page that comes of a login: the Hub's button, the provider's form, and back."""
        form = client.get("/hub/oauth_login", params={"next": "/hub/home"})
        assert str(form.url).startswith(self.provider.url), form.text
        return client.post(str(form.url), data={"sub": subject})

    def log_in(self, subject: str) -> httpx.Client:
        client = self.open()
        page = self.answer(client, subject)
        assert (page.status_code, page.url.path) == (200, "/hub/home"), page.text
        return client

    def user(self, name: str) -> dict[str, Any]:
        """What the Hub has of somebody."""
        return dict(self.hub.admin.get(f"users/{name}").json())

    def groups(self, name: str) -> list[str]:
        return sorted(self.user(name)["groups"])

    def api(self, name: str) -> httpx.Client:
        """Somebody's program."""
        return self.hub.client(name)


def wait_for(found: Callable[[], Any], wanted: Any, seconds: float = 60) -> None:
    """Return when ``found()`` is ``wanted``; each try may be what brings that about."""
    deadline = time.monotonic() + patience(seconds)
    while (last := found()) != wanted:
        assert time.monotonic() < deadline, f"still {last!r}"
        time.sleep(0.3)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with oidc_provider() as provider:
        config = CONFIG.format(
            parts=str(ROOT / "deploy/jupyterhub_config.d"),
            templates=str(ROOT / "templates"),
            settings=provider.settings,
        )
        hub = Hub(tmp_path_factory.mktemp("hub"), config)
        hub.environment["JUPYTERHUB_CRYPT_KEY"] = secrets.token_hex(32)
        for name, title, extra in (
            ("jupyterlab", "For all", ""),
            ("deep", "For the course", "courses: [deep]\n"),
            ("ml", "For a group", "groups: [students-ml]\n"),
        ):
            text = ENVIRONMENT.format(name=name, title=title) + extra
            (hub.catalog / f"{name}.yaml").write_text(text)
        hub.start()
        try:
            yield Site(provider, hub)
        finally:
            hub.stop()


@pytest.fixture(scope="module")
def course_of_a_group(site: Site) -> str:
    """The name of an approved course of barbara's, whose roster is the group "students-ml"."""
    site.provider.person("barbara", "gpu-users", "teachers")
    site.provider.person("grace", "gpu-users", "portal-admins")
    site.log_in("barbara"), site.log_in("grace")
    barbara, grace = site.api("barbara"), site.api("grace")
    wanted = course("deep", title="Deep Learning", roster_group="students-ml")
    asked = made(barbara.post(f"{API}/courses", json={"course": wanted}), 201)
    for who, step in ((barbara, "submit"), (grace, "approve")):
        answer = who.post(f"{API}/courses/deep/{step}", json={"number": asked["number"]})
        asked = made(answer)
    assert asked["runs"]
    return "deep"


# -- people, groups and rights ---------------------------------------------------------------------


def test_groups_come_with_the_login_and_show_environments(site: Site) -> None:
    site.provider.person("ada", "gpu-users", "students-x")
    page = site.log_in("ada").get("/hub/home")
    assert 'id="portal-home"' in page.text
    assert site.groups("ada") == ["gpu-users", "students-x"]
    assert site.user("ada")["admin"] is False
    assert names(site.api("ada").get(ENVIRONMENTS)) == {"jupyterlab"}
    site.provider.person("ada", "gpu-users", "students-ml")
    ada = site.api("ada")
    wait_for(lambda: names(ada.get(ENVIRONMENTS)), {"jupyterlab", "ml"})


def test_a_group_is_a_roster_and_its_course_is_on_the_pages(
    site: Site, course_of_a_group: str
) -> None:
    site.provider.person("alan", "gpu-users", "students-ml")
    alan = site.log_in("alan")
    assert site.groups("alan") == ["gpu-users", "students-ml"]

    def shown(page: str) -> bool:
        answer = alan.get(page)
        assert answer.status_code == 200
        return 'data-course="deep"' in answer.text and "Deep Learning" in answer.text

    wait_for(lambda: shown("/hub/home"), True)
    wait_for(lambda: shown("/hub/spawn"), True)
    everything = ["course-deep", "gpu-users", "students-ml"]
    wait_for(lambda: (alan.get("/hub/home").status_code, site.groups("alan")), (200, everything))
    program = site.api("alan")
    wait_for(lambda: names(program.get(ENVIRONMENTS)), {"jupyterlab", "ml", "deep"})
    mine = made(program.get(f"{API}/courses"))["items"]
    assert [one["name"] for one in mine] == ["deep"]
    # The provider takes the group away: so do the next refresh and the next look at the roster.
    site.provider.person("alan", "gpu-users")
    wait_for(lambda: (alan.get("/hub/home").status_code, site.groups("alan")), (200, ["gpu-users"]))
    wait_for(lambda: shown("/hub/home"), False)
    wait_for(lambda: names(program.get(ENVIRONMENTS)), {"jupyterlab"})


def test_an_instructor_is_one_as_long_as_the_provider_says_so(site: Site) -> None:
    site.provider.person("ian", "gpu-users", "teachers")
    pages = site.log_in("ian")
    assert "New course" in pages.get("/services/portal/courses").text
    ian = site.api("ian")
    made(ian.post(f"{API}/courses", json={"course": course("short")}), 201)
    site.provider.person("ian", "gpu-users")
    wait_for(lambda: (pages.get("/hub/home").status_code, site.groups("ian")), (200, ["gpu-users"]))
    more = {"course": course("another")}
    wait_for(lambda: ian.post(f"{API}/courses", json=more).status_code, 403)
    assert "New course" not in pages.get("/services/portal/courses").text


def test_who_may_teach_is_asked_of_the_hub(site: Site, course_of_a_group: str) -> None:
    """Whoever never came may be a student; only who is known to teach becomes an instructor."""
    site.provider.person("carol", "gpu-users", "teachers")
    site.provider.person("eve", "gpu-users")
    site.log_in("carol"), site.log_in("eve")
    barbara, roster = site.api("barbara"), f"{API}/courses/deep/roster"
    done = made(barbara.post(roster, json={"text": "carol eve nobody", "role": "instructor"}))
    assert (done["added"], sorted(done["refused"])) == (["carol"], ["eve", "nobody"])
    done = made(barbara.post(roster, json={"text": "eve never-here"}))
    assert (done["added"], done["unknown"], done["checked"]) == (["eve", "never-here"], [], False)


def test_mail_goes_where_the_provider_says(site: Site) -> None:
    site.provider.person("ada", "gpu-users")
    site.log_in("ada")
    assert made(site.api("ada").put(f"{API}/notices", json={"mail": True}))["mail"] is True
    site.provider.person("liar", "gpu-users", email_verified=False)
    site.log_in("liar")
    answer = site.api("liar").put(f"{API}/notices", json={"mail": True})
    assert answer.status_code == 404
    assert "no mail address for liar" in answer.json()["error"]["message"]


def test_the_hubs_people_are_told_to_the_service_alone(site: Site) -> None:
    site.provider.person("grace", "gpu-users", "portal-admins")
    site.log_in("grace")
    admin = site.hub.client("grace")
    for query in ("name=ada", "name=ada&login=1", "group=gpu-users"):
        assert admin.get(f"/hub/api/portal/people?{query}").status_code == 403
        assert site.hub.admin.get(f"portal/people?{query}").status_code == 403
        assert site.open().get(f"/hub/api/portal/people?{query}").status_code == 403


# -- who is not let in -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "claims", "words"),
    [
        ("s1", {"preferred_username": "root"}, "service account"),
        ("s2", {"preferred_username": "ROOT"}, "service account"),
        ("s3", {"preferred_username": "slurm"}, "service account"),
        ("s4", {"preferred_username": "../ada"}, "not currently authorized"),
        ("s5", {"preferred_username": "\u212aate"}, "not currently authorized"),
        ("s6", {"preferred_username": ["ada"]}, "did not send your user name"),
        ("s7", {}, "did not send your user name"),
        ("s8", {"preferred_username": "mallory", "groups": ["staff"]}, "not currently authorized"),
        ("s9", {"preferred_username": "mallory", "groups": "gpu"}, "not currently authorized"),
    ],
)
def test_who_is_not_let_in(site: Site, subject: str, claims: dict[str, Any], words: str) -> None:
    site.provider.claims(subject, **{"groups": ["gpu-users"], **claims})
    page = site.answer(site.open(), subject)
    assert page.status_code == 403, page.text
    assert words in page.text
    for name in ("root", "slurm", "mallory", "kate", "../ada"):
        assert site.hub.admin.get(f"users/{name}").status_code == 404


def test_no_group_of_the_provider_gives_a_course(site: Site, course_of_a_group: str) -> None:
    forged = ["course-deep", "Course-deep", "COURSE-DEEP", "cour\u017fe-deep"]
    site.provider.person("mallory", "gpu-users", *forged)
    mallory = site.log_in("mallory")
    for _ in range(3):
        home = mallory.get("/hub/home")
        assert home.status_code == 200 and 'data-course="deep"' not in home.text
        assert site.groups("mallory") == ["gpu-users"]
        time.sleep(1.1)  # auth_refresh_age
    program = site.api("mallory")
    assert names(program.get(ENVIRONMENTS)) == {"jupyterlab"}
    assert program.get(f"{API}/courses/deep").status_code == 403
    # Nor does the group of another course as the roster of one's own.
    site.provider.person("ian", "gpu-users", "teachers")
    site.log_in("ian")
    ian = site.api("ian")
    wanted = course("spy", roster_group="course-deep")
    asked = made(ian.post(f"{API}/courses", json={"course": wanted}), 201)
    made(ian.post(f"{API}/courses/spy/submit", json={"number": asked["number"]}))
    path = f"{API}/courses/spy/roster"
    wait_for(lambda: "cannot be used as a roster" in made(ian.get(path))["group_error"], True)
    assert [one["person"] for one in made(ian.get(path))["items"]] == ["ian"]


# -- the provider is away --------------------------------------------------------------------------


def test_while_the_provider_is_away_everyone_stays_what_they_were(site: Site) -> None:
    site.provider.person("grace", "gpu-users", "portal-admins")
    grace = site.log_in("grace")
    site.provider.stop()
    try:
        for _ in range(3):
            time.sleep(1.1)  # auth_refresh_age
            assert grace.get("/hub/home").status_code == 200
            assert site.groups("grace") == ["gpu-users", "portal-admins"]
            assert site.user("grace")["admin"] is True
        stranger = site.open()
        stranger.follow_redirects = False
        leads = stranger.get("/hub/oauth_login").headers["location"]
        state = re.search(r"state=([^&]+)", leads)
        assert state
        back = stranger.get(f"/hub/oauth_callback?code=x&state={state[1]}")
        assert back.status_code == 503
        assert "The login service does not answer" in back.text
    finally:
        site.provider.start()
    site.provider.person("grace", "gpu-users")
    wait_for(
        lambda: (grace.get("/hub/home").status_code, site.groups("grace")), (200, ["gpu-users"])
    )
    assert site.user("grace")["admin"] is False


def test_a_login_that_the_provider_has_ended_is_over(site: Site) -> None:
    site.provider.person("hedy", "gpu-users")
    hedy, program = site.log_in("hedy"), site.api("hedy")
    site.provider.end_logins("hedy")

    def page() -> str:
        return str(hedy.get("/hub/home").url.path)

    wait_for(page, "/hub/login")
    site.provider.stop()
    try:
        assert page() == "/hub/login"  # that it is away now lets nobody in
    finally:
        site.provider.start()
    assert page() == "/hub/login"
    # Sessions and programs go on: they cannot log in.
    assert program.get("/hub/api/user").json()["groups"] == ["gpu-users"]
    answer = site.answer(hedy, "hedy")
    assert answer.url.path == "/hub/home"


def test_who_leaves_the_allowed_groups_is_out(site: Site) -> None:
    site.provider.person("emmy", "gpu-users")
    emmy, program = site.log_in("emmy"), site.api("emmy")
    assert program.get("/hub/api/user").json()["name"] == "emmy"
    site.provider.person("emmy", "staff")
    wait_for(lambda: emmy.get("/hub/home").url.path, "/hub/login")
    assert site.answer(emmy, "emmy").status_code == 403
    assert program.get("/hub/api/user").status_code == 403
    assert program.post("/hub/api/users/emmy/server").status_code == 403
    site.provider.person("emmy", "gpu-users")
    wait_for(lambda: program.get("/hub/api/user").status_code, 200)


# -- a browser -------------------------------------------------------------------------------------


@pytest.mark.browser
def test_a_student_logs_in_and_finds_their_course(site: Site, course_of_a_group: str) -> None:
    site.provider.person("katherine", "gpu-users", "students-ml")
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(SOON)
        page.goto(f"{site.hub.url}/hub/spawn")
        page.get_by_role("button", name="Sign in with the test's provider").click()
        page.wait_for_url(f"{site.provider.url}/**")
        page.get_by_placeholder("sub").fill("katherine")
        page.get_by_role("button", name="Authorize").click()
        page.wait_for_url(f"{site.hub.url}/hub/spawn")
        shown = page.locator('[data-course="deep"]')
        deadline = time.monotonic() + patience(60)
        while not shown.count() and time.monotonic() < deadline:  # the roster is looked at
            page.wait_for_timeout(500)
            page.goto(f"{site.hub.url}/services/portal/sessions")
        assert shown.get_by_role("heading", name="Deep Learning").is_visible()
        assert shown.get_by_role("link", name="Start").is_visible()
        page.goto(f"{site.hub.url}/services/portal/courses")
        assert page.get_by_text("Deep Learning").first.is_visible()
        assert not page.get_by_role("link", name="New course").count()
        page.goto(f"{site.hub.url}/hub/logout")
        page.goto(f"{site.hub.url}/hub/home")
        assert page.get_by_role("button", name="Sign in with the test's provider").is_visible()


@pytest.mark.browser
def test_who_is_refused_is_told_why(site: Site) -> None:
    site.provider.claims("s1", preferred_username="root", groups=["gpu-users"])
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(SOON)
        page.goto(f"{site.hub.url}/hub/oauth_login")
        page.get_by_placeholder("sub").fill("s1")
        page.get_by_role("button", name="Authorize").click()
        page.get_by_text("is the name of a service account of this cluster").wait_for()
