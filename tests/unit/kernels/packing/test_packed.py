"""What portal-pack refuses, how it names things and what it prints; links of packed folders."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_client import wait_until
from portal_session.kernels.container import Container
from portal_session.packing import PackingError, packer
from portal_session.packing.binding import Binding
from portal_session.packing.command import run
from portal_session.packing.packer import Packer
from portal_session.packing.places import Packed, Places
from portal_session.portal_error import PortalError

ENVIRON = {"PORTAL_KERNEL_BROKER": "/run/b"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home/ada"
    (home / "data").mkdir(parents=True)
    (home / "data/1.txt").write_text("one")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(packer.shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    return home


@pytest.fixture
def packing(home: Path, monkeypatch: pytest.MonkeyPatch) -> Packer:
    """A packer whose mksquashfs writes what it was asked to."""
    made = Packer(home, 2, lambda name: f"'{name}' is bound.")

    def write(program: str, source: Path, image: int, progress: Any) -> None:
        Path(f"/proc/self/fd/{image}").write_bytes(b"hsqs")

    monkeypatch.setattr(made, "_run", write)
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def packed(packing: Packer, *asked: str) -> Any:
    progress = packing.start(*asked)
    wait_until("it has ended", lambda: not progress.living)
    assert packing._work is not None
    packing._work.join(10)  # it removes what is left
    return progress


def test_a_folder_is_packed_beside_itself(packing: Packer, home: Path) -> None:
    progress = packed(packing, "~/data")
    image = home / "data.sqsh"
    assert (progress.state, progress.percent, progress.files) == ("packed", 100, 1)
    assert progress.words == f"1 file is in {image} (4 B). 'data' is bound."
    assert packing.places.packed() == [Packed("data", str(image))]
    assert (home / ".portal/packed/data").is_dir()
    assert names(home) == [".portal", "data", "data.sqsh"]
    assert (home / "data/1.txt").read_text() == "one"
    with pytest.raises(PackingError, match="exists already"):
        packing.start("~/data")
    with pytest.raises(PackingError, match=r"is packed already, in .*portal-pack --forget data"):
        packing.start("~/data", str(home / "other.sqsh"))
    assert packed(packing, "~/data", str(home / "other.sqsh"), "other").state == "packed"
    assert packing.places.forget("data") == str(image)
    assert image.exists()
    assert [each.name for each in packing.places.packed()] == ["other"]
    with pytest.raises(PackingError, match="No packed folder is called 'data'"):
        packing.places.forget("data")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("",), "is not an absolute path"),
        (("data",), "is not an absolute path"),
        (("~/none",), "does not exist"),
        (("~/data/1.txt",), "is not a folder that you may read"),
        (("~",), "contains your home"),
        (("/",), "contains your home"),
        (("~/my data",), "cannot be called 'my data'.*--name"),
        (("~/data", "", "a:b"), "cannot be called 'a:b'"),
        (("~/data", "", "../x"), "cannot be called"),
        (("~/data", "~/data/x.sqsh"), "would be in the folder that it is made of"),
        (("~/data", "~/none/x.sqsh"), "is not a folder. Choose another place"),
        (("~/data", "~/link.sqsh"), "exists already"),
    ],
)
def test_what_is_refused(packing: Packer, home: Path, asked: tuple[str, ...], words: str) -> None:
    (home / "my data").mkdir()
    (home / "link.sqsh").symlink_to(home / "nowhere")
    before = sorted(home.rglob("*"))
    with pytest.raises(PackingError, match=words):
        packing.start(*asked)
    assert sorted(home.rglob("*")) == before


def test_an_empty_folder_and_a_full_disk(
    packing: Packer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "empty/below").mkdir(parents=True)
    progress = packed(packing, "~/empty")
    assert (progress.state, progress.words) == ("failed", f"{home}/empty has no files.")
    free = SimpleNamespace(free=50_000_000)
    monkeypatch.setattr(packer.shutil, "disk_usage", lambda path: free)
    progress = packed(packing, "~/data")
    assert progress.state == "failed"
    assert progress.words.startswith(f"{home} has 50 MB free, and the image may take 67 MB.")
    monkeypatch.setattr(packer, "MOST_FILES", 0)
    assert "has more than 0 files" in packed(packing, "~/data").words
    assert names(home) == ["data", "empty"]


def test_a_failure_leaves_nothing(
    packing: Packer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(program: str, source: Path, image: int, progress: Any) -> None:
        os.write(image, b"half")
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(packing, "_run", full)
    progress = packed(packing, "~/data")
    assert progress.words == f"{home}/data.sqsh cannot be written: Disk quota exceeded."
    assert names(home) == ["data"]

    def taken(program: str, source: Path, image: int, progress: Any) -> None:
        (home / "data.sqsh").write_text("of another program")

    monkeypatch.setattr(packing, "_run", taken)
    assert "exists meanwhile" in packed(packing, "~/data").words
    assert (home / "data.sqsh").read_text() == "of another program"
    assert packing.places.packed() == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "[==  ] 1/3 33%\r[=== ] 2/3 66%\nFATAL ERROR: Failed to read file /d/2.jpg\n",
            "mksquashfs failed: FATAL ERROR: Failed to read file /d/2.jpg.",
        ),
        (
            "mksquashfs: -mem: invalid option\n",
            "mksquashfs here is too old (mksquashfs: -mem: invalid option). Ask your admin for a "
            "newer squashfs-tools.",
        ),
        ("", "mksquashfs failed: no message."),
    ],
)
def test_the_reason_of_mksquashfs(said: str, words: str) -> None:
    assert packer._reason(said) == words


def test_without_mksquashfs_the_way_out_is_named(
    packing: Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packer.shutil, "which", lambda name: None)
    with pytest.raises(PackingError, match="ask your admin for squashfs-tools") as caught:
        packing.start("~/data")
    assert caught.value.status == 503


def test_a_container_has_what_it_got_at_its_start(home: Path) -> None:
    """In a container, no program may mount."""
    places = Places(home)
    image = home / "data.sqsh"
    image.touch()
    places.add_link("data", image)
    places.add_link("gone", home / "gone.sqsh")
    environ = {"APPTAINER_CONTAINER": "/i.sif"}
    assert not Binding(places, environ).possible  # it does not see the home
    environ["PORTAL_PACKED"] = str(places.folder)
    binding = Binding(places, environ)
    assert binding.possible
    assert binding.bind(Packed("data", str(image))).startswith("It is bound from your next session")
    states = {state["name"]: state for state in binding.states()}
    assert states["data"]["path"] == ""
    assert states["data"]["reason"].startswith("it is bound from the next session on")
    assert states["gone"]["reason"] == f"{home}/gone.sqsh is missing"
    environ["PORTAL_PACKED_NAMES"] = "data"
    assert binding.path("data") == f"{home}/.portal/packed/data"


def test_kernels_beside_their_server_have_them_too(home: Path) -> None:
    folder = home / ".portal/packed"
    folder.mkdir(parents=True)
    (folder / "data.sqsh").touch()
    environ = {
        "PORTAL_CONTAINER": '{"exec": ["apptainer", "exec"], "image": "/i.sif", "roots": []}',
        "PORTAL_PACKED": str(folder),
        "PORTAL_PACKED_NAMES": "data gone",
    }
    container = Container.from_environ(environ)
    assert container is not None
    bind = f"{folder}/data.sqsh:{folder}/data:image-src=/"
    assert container.command(["true"]) == ["apptainer", "exec", "--bind", bind, "/i.sif", "true"]


def test_a_site_without_squashfuse_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    binding = Binding(Places(home), {})
    words = binding.bind(Packed("data", "/d.sqsh"))
    assert "squashfuse is missing on this node. Ask your admin" in words


class Broker:
    """The session's broker, with the answers to GET in turn."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked.append((method, path, body))
        return self.answers.pop(0) if method == "GET" else {"image": "/d.sqsh"}


def progress(state: str, words: str = "") -> dict[str, Any]:
    return {"progress": {"state": state, "words": words, "files": 4100, "percent": 60}}


def test_the_command_follows_the_packing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal_session.packing.command.PAUSE", 0)
    monkeypatch.chdir(home)
    broker = Broker(progress("counting"), progress("packing"), progress("packed", "Done."))
    told: list[str] = []
    assert run(["data", "--name", "d"], ENVIRON, told.append, lambda path: broker) == "Done."
    assert broker.asked[0] == ("POST", "/packing", {"folder": f"{home}/data", "name": "d"})
    assert told == ["Counting: 4,100 files", "Packing 4,100 files: 60 %"]
    broker = Broker(progress("failed", "The disk is full."))
    with pytest.raises(PortalError, match="The disk is full"):
        run(["data"], ENVIRON, told.append, lambda path: broker)


def test_the_command_lists_and_forgets() -> None:
    items = [
        {"name": "a", "image": "/a.sqsh", "path": "/p/a", "reason": ""},
        {"name": "b", "image": "/b.sqsh", "path": "", "reason": "/b.sqsh is missing"},
    ]
    broker = Broker({"items": items}, {"items": []})
    assert run([], ENVIRON, print, lambda path: broker) == (
        "a  /p/a\n  image: /a.sqsh\nb  not bound: /b.sqsh is missing\n  image: /b.sqsh"
    )
    assert run([], ENVIRON, print, lambda path: broker).startswith("Nothing is packed.")
    said = run(["--forget", "a/b"], ENVIRON, print, lambda path: broker)
    assert broker.asked[-1] == ("DELETE", "/packing/a%2Fb", None)
    assert said.endswith("Its image is still there: /d.sqsh")
    with pytest.raises(PortalError, match="only works in a session"):
        run([], {}, print)


@pytest.mark.parametrize("links", [True, False], ids=["", "no hard links"])
def test_a_link_in_the_place_of_the_image_that_is_made_is_not_followed(
    packing: Packer, home: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """In a group's folder, another member may exchange it between its creation and its end."""
    write, victim = packing._run, home / "bashrc"
    victim.write_text("mine")
    victim.chmod(0o600)

    def exchanged(*given: Any) -> None:
        (part,) = home.glob(".data.sqsh.*.part")
        part.unlink()
        part.symlink_to(victim)
        write(*given)

    def without_links(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(packing, "_run", exchanged)
    if not links:
        monkeypatch.setattr(packer.os, "link", without_links)
    progress = packed(packing, str(home / "data"))
    assert progress.state == "failed"
    assert "Another user has exchanged .data.sqsh" in progress.words
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("mine", 0o600)
    assert names(home) == ["bashrc", "data"]


def test_no_image_where_strangers_may_exchange_it(packing: Packer, home: Path) -> None:
    shared = home / "shared"
    (shared / "data").mkdir(parents=True)
    (shared / "data/1.txt").write_text("one")
    shared.chmod(0o777)
    assert packed(packing, str(shared / "data")).image == str(home / "data.sqsh")
    with pytest.raises(PackingError, match="Every user may exchange files in"):
        packing.start(str(shared / "data"), str(shared / "own.sqsh"), "own")


def test_a_name_of_a_file_does_nothing_to_a_terminal(
    packing: Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PackingError("/data/\x1b]0;owned\x07\n\u202ex cannot be read: Permission denied.")

    monkeypatch.setattr(packing, "_run", refused)
    words = packed(packing, "~/data").words
    assert words == "/data/?]0;owned???x cannot be read: Permission denied."
