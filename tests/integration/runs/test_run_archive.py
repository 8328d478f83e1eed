"""Archives of runs: the real program and broker's protocol, and an independent reader of bags."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bagit
import pytest
from portal_session.runs import RunError
from portal_session.runs.archive import command
from portal_session.runs.plan import freeze
from portal_session.runs.source import read_source

POINTS = 250


class Portal:
    """The session's broker, as far as the program asks it."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        assert method == "GET", path
        if path == "/runs":
            return {"items": [self.item]}
        if "/points?" not in path:
            return {"version": 4, "metrics": ["loss"]}
        query = dict(pair.split("=") for pair in path.partition("?")[2].split("&"))
        first, last = int(query["offset"]), int(query["offset"]) + int(query["limit"])
        numbers = range(first, min(last, POINTS))
        return {"items": [{"number": each, "metrics": {"loss": 0.5}} for each in numbers]}


@pytest.fixture
def portal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Portal]:
    """A run in ``tmp_path``/work that has ended, with a point's folder."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PORTAL_IMAGE_DIGEST", "sha256:" + "ab" * 32)
    monkeypatch.chdir(tmp_path)
    (work / "train.py").write_text("print('on')\n")
    plan = freeze(read_source(work / "train.py"), [{"lr": 0.1}] * POINTS, "train")
    point = plan.folder / "0000"
    point.mkdir()
    python = {"version": "3.11.2", "packages": ["torch==2.4.0"]}
    (point / "manifest.json").write_text(json.dumps({"python": python}))
    (point / "output.txt").write_text("on\n" * 1000)
    (point / "a\nb ü.txt").write_text("odd")
    (point / "empty").touch()
    item = {"id": plan.id, "name": "train", "folder": str(plan.folder), "points": POINTS}
    times = {"created_at": 1.7e9, "ended_at": 1.7e9 + 90000}
    resources = {"gpus": 1, "account": "bio", "qos": "high"}
    yield Portal({**item, **times, "environment": "pytorch", "resources": resources})


def archived(portal: Portal, *argv: str) -> str:
    return command.run(["archive", "train", *argv], portal)  # type: ignore[arg-type]


def unpacked(file: Path, to: Path) -> Path:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        archive.extractall(to)
    return to / "train"


def test_another_program_verifies_it(portal: Portal, tmp_path: Path) -> None:
    creators = ("--creator", "Lovelace, Ada", "--creator", "Hopper, Grace")
    words = archived(portal, "--title", "Rates", "--license", "CC-BY-4.0", *creators)
    assert words.startswith(f"{tmp_path}/train.zip: 6 files, "), words
    place = unpacked(tmp_path / "train.zip", tmp_path / "out")
    bag = bagit.Bag(str(place))
    bag.validate()
    assert bag.info["Contact-Name"] == "Lovelace, Ada; Hopper, Grace"
    folder = Path(portal.item["folder"])
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 6
    for path in files:
        copy = place / "data" / path.relative_to(folder)
        assert copy.read_bytes() == path.read_bytes()
    # A reader of its own: what bagit does not compare.
    lines = (place / "tagmanifest-sha256.txt").read_text().splitlines()
    for digest, name in (line.split("  ") for line in lines):
        assert hashlib.sha256((place / name).read_bytes()).hexdigest() == digest
    assert "metadata/datacite.json" in "".join(lines)
    (place / "data" / "0000" / "output.txt").write_text("off\n" * 750)  # as long as before
    with pytest.raises(bagit.BagValidationError):
        bagit.Bag(str(place)).validate()


def test_its_record_and_citation(portal: Portal, tmp_path: Path) -> None:
    words = archived(portal, "--license", "MIT", "--creator", "Ada", "--description", "Why.")
    assert "license" not in words
    place = unpacked(tmp_path / "train.zip", tmp_path / "out")
    record = json.loads((place / "metadata/run.json").read_text())
    assert record["environment"] == {
        "name": "pytorch",
        "version": 4,
        "image_digest": "sha256:" + "ab" * 32,
        "python": {"version": "3.11.2", "packages": ["torch==2.4.0"]},
    }
    assert [point["number"] for point in record["points"]] == list(range(POINTS))
    assert record["run"]["resources"] == {"gpus": 1}  # the account is the user's own affair
    assert record["points"][0]["metrics"] == {"loss": 0.5}
    cited = json.loads((place / "metadata/datacite.json").read_text())
    # What DataCite's schema 4.5 requires.
    assert cited["titles"] == [{"title": "Run train"}] and cited["creators"] == [{"name": "Ada"}]
    assert cited["publisher"]["name"] == ":unav" and cited["publicationYear"].isdigit()
    assert cited["types"]["resourceTypeGeneral"] == "Dataset"
    assert cited["dates"] == [{"date": "2023-11-14/2023-11-15", "dateType": "Created"}]
    assert cited["rightsList"][0]["rightsIdentifier"] == "MIT"


def test_links_and_pipes_stay_out(portal: Portal, tmp_path: Path) -> None:
    folder = Path(portal.item["folder"])
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "more").write_text("a key")
    (folder / "0000" / "link").symlink_to(tmp_path / "secret")
    (folder / "0000" / "linked").symlink_to(tmp_path / "secrets")
    os.mkfifo(folder / "0000" / "pipe")
    assert "Not in it: 3 links or other entries ('0000/link', " in archived(portal)
    with zipfile.ZipFile(tmp_path / "train.zip") as archive:
        names = archive.namelist()
        assert not [name for name in names if "link" in name or "pipe" in name]
        assert not any(b"a key" in archive.read(name) for name in names)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--license", "my own"], "not a license"),
        (["--license", "../x"], "not a license"),
        (["--title", "a\nb"], "one line"),
        (["--title", "x" * 1001], "one line"),
        (["--creator", ""], "who made the run"),
        (["--output", "missing/x.zip"], "missing: No such file"),
        (["--output", "there.zip"], "exists"),
        (["--output", "work/runs/train/x.zip"], "in the folder that is archived"),
    ],
)
def test_refusals(portal: Portal, tmp_path: Path, argv: list[str], words: str) -> None:
    (tmp_path / "there.zip").write_text("kept")
    with pytest.raises(RunError, match=words):
        archived(portal, *argv)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "there.zip", "work"]
    assert (tmp_path / "there.zip").read_text() == "kept"


def test_a_name_that_was_taken_meanwhile(portal: Portal, tmp_path: Path) -> None:
    class Slow(Portal):
        def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
            if "/points?" in path:  # the file is half-written
                (tmp_path / "train.zip").write_text("another's")
            return super().ask(method, path, body)

    with pytest.raises(RunError, match="exists by now"):
        archived(Slow(portal.item))
    assert (tmp_path / "train.zip").read_text() == "another's"
    assert list(tmp_path.glob(".*")) == []


def test_runs_that_cannot_be_archived(portal: Portal, tmp_path: Path) -> None:
    folder = Path(portal.item["folder"])
    (folder / os.fsdecode(b"\xff")).touch()
    with pytest.raises(RunError, match=r"'\\udcff' is not UTF-8"):
        archived(portal)
    portal.item["ended_at"] = None
    with pytest.raises(RunError, match="has not ended"):
        archived(portal)
    portal.item.update(ended_at=1.7e9, folder=str(tmp_path / "gone"))
    with pytest.raises(RunError, match="does not exist on this node"):
        archived(portal)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "work"]


def test_a_full_disk(portal: Portal, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        (Path(portal.item["folder"]) / "model.bin").write_bytes(os.urandom(3 << 20))
        with pytest.raises(RunError, match="No space left on device"):
            archived(portal, "--output", "small/x.zip")
        assert list(place.iterdir()) == []
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_large_file_needs_no_memory(portal: Portal, tmp_path: Path) -> None:
    """A file is hashed while it is written: 300 MB in a process that may have 200 MB more."""
    folder = Path(portal.item["folder"])
    with (folder / "model.bin").open("wb") as file:
        for _ in range(300):
            file.write(os.urandom(1 << 14) * 64)
    code = (
        "import io, resource, sys; from pathlib import Path\n"
        "from portal_session.runs.archive.bag import Bag\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with open(sys.argv[2], 'wb') as file:\n"
        "    bag = Bag(file, 'train'); bag.add_folder(Path(sys.argv[1])); bag.close({})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    argv = [sys.executable, "-c", code, str(folder), str(tmp_path / "large.zip")]
    done = subprocess.run(
        argv, capture_output=True, text=True, env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50 * 1024  # kB
