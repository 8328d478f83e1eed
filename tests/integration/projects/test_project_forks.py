"""Projects from git repositories: real git, a server on loopback, and every hostile repository;
and a session of an owner, which puts the files into the folder."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from git_server import GitServer, Repository, serve
from portal_session.project_files import ProjectFiles, folder_of, unpack
from portal_session.service import ServiceError
from session_endpoints import of_server
from test_projects_api import PEOPLE, Site, running

from portal.courses.settings import Courses

TEMPLATE = """
format: 1
project: {name: any, title: Any, budget: 10, environments: [lab]}
people: {owners: [mallory]}
"""


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setitem(PEOPLE, "session", of_server("mike", "work"))
    settings = Courses(directory=str(tmp_path / "courses"), handouts_megabytes=2)
    settings.handouts_loopback = True
    async with running(tmp_path, settings, approval="policy") as site:
        site.parts.hub_host = ""
        yield site


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with serve(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def upstream(served: GitServer, request: pytest.FixtureRequest) -> Repository:
    made = Repository(served.root / request.node.name.replace("/", "_")[:80])
    made.write("project.yaml", TEMPLATE)
    made.write("src/train.py", "print(1)\n")
    made.commit()
    return made


def address(served: GitServer, upstream: Repository) -> str:
    return f"{served.url}/{upstream.place.name}"


class Service:
    """What the session's side asks the service, over HTTP."""

    def __init__(self, site: Site) -> None:
        self._url = str(site.client.base_url)
        self._headers = {"Authorization": "token session"}

    def download(self, path: str, target: Path) -> None:
        target.write_bytes(self._asked("GET", path).content)

    def ask(self, method: str, path: str, body: dict[str, Any]) -> None:
        self._asked(method, path, body)

    def _asked(self, method: str, path: str, body: Any = None) -> httpx.Response:
        url = f"{self._url}{path}"
        with httpx.Client(trust_env=False) as client:
            answer = client.request(method, url, json=body, headers=self._headers)
        if answer.status_code >= 300:
            raise ServiceError(answer.text, answer.status_code)
        return answer


async def test_a_repository_is_forked_and_an_owners_session_gets_its_files(
    site: Site, served: GitServer, upstream: Repository, tmp_path: Path
) -> None:
    upstream.write("data/big.csv", "1,2\n")
    upstream.write("run.sh", "#!/bin/sh\n")
    (upstream.place / "run.sh").chmod(0o755)
    (upstream.place / "link.txt").symlink_to("src/train.py")
    (upstream.place / "out.txt").symlink_to("/etc/passwd")
    upstream.write(".gitattributes", "* filter=evil export-subst\nsrc/* export-ignore\n")
    upstream.commit()
    asked = {"repository": address(served, upstream), "name": "forked"}
    detail = await site.done("mike", "POST", "projects/forks", asked)
    assert [m["person"] for m in detail["members"]] == ["mike"]  # nobody of the file
    section = await site.done("mike", "GET", "projects/forked/file")
    assert section["files"] == "waiting" and section["origin"].startswith(asked["repository"])
    for left in ("'link.txt' is a link", "'out.txt' is a link", "'.gitattributes' would change"):
        assert left in section["left_out"]
    await site.session("mike", space="forked", job_id="17")
    folder = tmp_path / "folder"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("mine\n")
    files = ProjectFiles(Service(site), folder, logging.getLogger("session"))
    await files.run()
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == ["data/big.csv", "project.yaml", "run.sh", "src/train.py"]
    assert (folder / "src" / "train.py").read_text() == "mine\n"  # nothing is overwritten
    assert os.access(folder / "run.sh", os.X_OK) and not os.access(folder / "project.yaml", os.X_OK)
    section = await site.done("mike", "GET", "projects/forked/file")
    assert section["files"] == "brought" and "src/train.py" in section["brought"]
    assert list(site.projects.archives.folder.iterdir()) == []  # the portal keeps nothing of it
    (folder / "run.sh").unlink()
    await files.run()  # another session of an owner
    assert not (folder / "run.sh").exists()


async def test_the_files_are_for_a_session_of_an_owner_alone(
    site: Site, served: GitServer, upstream: Repository
) -> None:
    asked = {"repository": address(served, upstream), "name": "forked"}
    await site.done("olga", "POST", "projects/forks", asked)
    await site.done(
        "olga", "POST", "projects/forked/members", {"people": ["mike"], "role": "member"}
    )
    await site.session("mike", space="forked", job_id="17")
    await site.refused(404, "session", "GET", "session/project/files")
    report = {"revision": "0" * 40}
    await site.refused(404, "session", "PUT", "session/project/files", report)
    await site.done("olga", "POST", "projects/forked/hand-over", {"person": "mike", "giver": None})
    await site.refused(404, "session", "PUT", "session/project/files", report)
    assert (await site.ask("session", "GET", "session/project/files")).status_code == 200


async def test_hostile_repositories_make_no_project(
    site: Site, served: GitServer, upstream: Repository
) -> None:
    where = address(served, upstream)

    async def refused(repository: str = where, **more: Any) -> str:
        body = {"repository": repository, **more}
        answer = await site.ask("mike", "POST", "projects/forks", body)
        assert answer.status_code in (400, 502), answer.text
        assert (
            "Traceback" not in answer.text and str(site.projects.archives.folder) not in answer.text
        )
        return str(answer.json()["error"]["message"])

    for bad in (
        "file:///etc",
        "ext::sh -c id",
        "ssh://git@example.org/x",
        "https://user:secret@example.org/x",
        "https://10.0.0.1/x",
        "https://[::1]/x",
        "--upload-pack=id",
        "http://example.org/x",
        "a" * 1024,
    ):
        await refused(bad)
    await refused(branch="nowhere")
    for text in ("", "project: &a [*a]", TEMPLATE.replace("lab", "nothing"), "\xff" * 20):
        upstream.write("project.yaml", text)
        upstream.commit()
        await refused()
    upstream.write("project.yaml", TEMPLATE)
    upstream.write("big.bin", os.urandom(3_000_000))
    upstream.commit()
    assert "limit" in await refused()
    (upstream.place / "big.bin").unlink()
    (upstream.place / "project.yaml").unlink()
    (upstream.place / "project.yaml").symlink_to("/etc/passwd")
    upstream.commit()
    assert "no file 'project.yaml'" in await refused()
    served.answer_only(302, "Location", "http://127.0.0.1:1/x")
    try:
        assert "redirects" in await refused()
    finally:
        served.instead = None
    assert (await site.done("mike", "GET", "projects?mine=true"))["items"] == []
    assert list(site.projects.archives.folder.iterdir()) == []


async def test_what_no_folder_can_have_is_left_out(
    site: Site, served: GitServer, upstream: Repository
) -> None:
    upstream.tree(
        ("100644", "..", b"x"),
        ("100644", 'a"b', b"x"),
        ("160000", "module", b""),
        ("100644", "project.yaml", TEMPLATE.encode()),
    )
    body = {"repository": address(served, upstream), "name": "forked"}
    await site.done("mike", "POST", "projects/forks", body)
    left_out = (await site.done("mike", "GET", "projects/forked/file"))["left_out"]
    assert "'..' leads out" in left_out and "'module' is a submodule" in left_out
    (archive,) = site.projects.archives.folder.glob("*.tar")
    with tarfile.open(archive) as packed:
        assert [member.name for member in packed] == ["project.yaml"]


def archive_of(*members: tuple[str, bytes, str]) -> tarfile.TarFile:
    """An archive that git would never write: names, types and link targets."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as packed:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, int(kind == tarfile.REGTYPE)
            packed.addfile(member, io.BytesIO(b"x"))
    raw.seek(0)
    return tarfile.open(fileobj=raw)


def test_an_archive_changes_nothing_outside_of_the_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "led").symlink_to(outside)
    (folder / "file").symlink_to(outside / "kept")
    (folder / "dangling").symlink_to(outside / "new")
    regular, link = tarfile.REGTYPE, tarfile.SYMTYPE
    with archive_of(
        ("led/new", regular, ""),
        ("file", regular, ""),
        ("dangling", regular, ""),
        ("file/below", regular, ""),
        ("made", link, str(outside)),
        ("made/new", regular, ""),
        ("hard", tarfile.LNKTYPE, "file"),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("good", regular, ""),
    ) as packed:
        made, kept = unpack(packed, folder)
    assert (made, kept) == (2, ["led/new", "file", "dangling", "file/below"])
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "kept"
    assert not list(folder.rglob(".portal-*")) and not (folder / "pipe").exists()
    for name in ("../out", "/tmp/out", "a/../../out", "a//b", "./a", ""):
        with archive_of((name, regular, "")) as packed, pytest.raises(ValueError, match="leads"):
            unpack(packed, folder)


def test_two_sessions_of_owners_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Both put all files there at once: each is written by one, and whole."""

    async def both() -> list[tuple[int, list[str]]]:
        archives = [
            archive_of(*((f"d/{number}", tarfile.REGTYPE, "") for number in range(200)))
            for _ in range(2)
        ]
        unpacked = (asyncio.to_thread(unpack, packed, tmp_path / "f") for packed in archives)
        return await asyncio.gather(*unpacked)

    outcomes = asyncio.run(both())
    assert sum(made for made, _ in outcomes) == 200
    assert {path.read_text() for path in (tmp_path / "f" / "d").iterdir()} == {"x"}


def test_without_a_folder_the_files_go_into_the_home() -> None:
    assert folder_of({"PORTAL_PROJECT": "proteins"}) == Path.home() / "proteins"
    named = {"PORTAL_PROJECT_FOLDER": "/projects/proteins", "PORTAL_PROJECT": "proteins"}
    assert folder_of(named) == Path("/projects/proteins")
