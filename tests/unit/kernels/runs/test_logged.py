"""Pictures and tables of a point: what is logged, and what is sent to the portal."""

from __future__ import annotations

import base64
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs.library import portal_metrics
from portal_session.runs.live.logged import LoggedFiles
from portal_session.service import ServiceError

from portal.models.session.run_logged import Logged

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0" + b"x" * 50
JPEG = b"\xff\xd8\xff" + b"y" * 50


class Service:
    """The portal: it keeps what it gets, or fails with a status."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.status = 0

    def ask(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert (method, path) == ("POST", "session/points/logged")
        if self.status:
            raise ServiceError("No.", self.status)
        assert (body["point"], body["attempt"]) == (3, 1)
        self.bodies.append(body["logged"])
        return {}


class Figure:
    """A figure as Matplotlib has it."""

    def savefig(self, file: Any, format: str) -> None:
        file.write(PNG + format.encode())


class Frame:
    """A data frame as pandas has it."""

    columns = ("epoch", "loss")
    values = type("Values", (), {"tolist": lambda self: [[1, 0.5], [2, float("nan")]]})()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def files(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoggedFiles:
    monkeypatch.setenv("PORTAL_METRICS", str(tmp_path / "metrics.jsonl"))
    return LoggedFiles(service, {"point": 3, "attempt": 1}, tmp_path)  # type: ignore[arg-type]


def test_what_is_logged_is_sent_once(files: LoggedFiles, service: Service, tmp_path: Path) -> None:
    files.send()
    assert service.bodies == [], "nothing was logged"
    (tmp_path / "own.jpg").write_bytes(JPEG)
    portal_metrics.log_image("own", tmp_path / "own.jpg")
    portal_metrics.log_image("loss curve", Figure())
    portal_metrics.log_image("bytes", PNG)
    portal_metrics.log_table("confusion", [["", "cat"], ["dog", 7]])
    portal_metrics.log_table("frame", Frame())
    files.send()
    files.send()
    (body,) = service.bodies
    assert {name: base64.b64decode(text) for name, text in body["images"].items()} == {
        "own": JPEG,
        "loss curve": PNG + b"png",
        "bytes": PNG,
    }
    assert body["tables"] == {
        "confusion": [["", "cat"], ["dog", 7]],
        "frame": [["epoch", "loss"], [1, 0.5], [2, "nan"]],
    }
    portal_metrics.log_image("bytes", PNG + b"new")
    files.send()
    assert base64.b64decode(service.bodies[1]["images"]["bytes"]).endswith(b"new")


def test_what_the_portal_did_not_get_is_sent_again(files: LoggedFiles, service: Service) -> None:
    portal_metrics.log_image("plot", PNG)
    service.status = 503
    files.send()
    service.status = 0
    files.send()
    assert len(service.bodies) == 1
    service.status = 400
    portal_metrics.log_image("plot", PNG + b"other")
    files.send()
    service.status = 0
    files.send()
    assert len(service.bodies) == 1, "it would be refused again"


@pytest.mark.parametrize("name", ["", ".hidden", "../metrics", "a/b", "a\nb", "x" * 81])
def test_a_name_leads_to_no_other_folder(files: LoggedFiles, name: str) -> None:
    with pytest.raises(ValueError, match="A name has"):
        portal_metrics.log_image(name, PNG)


@pytest.mark.parametrize("content", [b"<svg onload='x()'/>", b"<html>", b""])
def test_only_pictures_are_pictures(files: LoggedFiles, content: bytes) -> None:
    with pytest.raises(ValueError, match="A picture is"):
        portal_metrics.log_image("plot", content)


def test_links_and_what_is_no_file_are_not_read(
    files: LoggedFiles, service: Service, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(PNG)
    folder = tmp_path / "logged"
    folder.mkdir()
    (folder / "link.png").symlink_to(secret)
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.json").mkdir()
    (folder / "page.html").write_text("<script>x()</script>")
    (folder / "good.png").write_bytes(PNG)
    files.send()
    assert list(service.bodies[0]["images"]) == ["good"] and service.bodies[0]["tables"] == {}


def test_a_folder_that_is_a_link_is_not_read(
    files: LoggedFiles, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/plot.png").write_bytes(PNG)
    (tmp_path / "logged").symlink_to(tmp_path / "elsewhere")
    files.send()
    assert service.bodies == []


def test_it_is_bounded(files: LoggedFiles, service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "logged"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02}.json").write_text(json.dumps([[number]]))
        (folder / f"{number:02}.png").write_bytes(PNG)
    (folder / "00.json").write_text(json.dumps([["a" * 999, *"\0" * 60], *[[1] * 60] * 600]))
    files.send()
    images, tables = service.bodies[0]["images"], service.bodies[0]["tables"]
    assert len(images) == len(tables) == 12
    rows = tables["00"]
    assert (len(rows), len(rows[0]), rows[0][:2]) == (501, 50, ["a" * 200, " "])
    (folder / "01.png").write_bytes(PNG + b"x" * 1024 * 1024)
    (folder / "02.png").write_bytes(PNG + b"x" * 900_000)
    (folder / "03.png").write_bytes(PNG + b"x" * 100_000)
    files.send()
    sent = {name: len(base64.b64decode(text)) for name, text in service.bodies[1]["images"].items()}
    assert "02" in sent and not {"01", "03"} & sent.keys(), "a mebibyte in all"


def plant(folder: Path) -> None:
    """A good picture and table, and what the portal refuses, with all that comes with it."""
    logged = folder / "logged"
    logged.mkdir()
    for name in ("a\nb.png", "\u202egnp.png", "a\u200db.json", "\udcff.json", "x" * 81 + ".png"):
        (logged / name).write_bytes(PNG if name.endswith("png") else b"[[1]]")
    (logged / "page.png").write_bytes(b"<svg onload='x()'/>")
    side = (60_000).to_bytes(4, "big")
    (logged / "bomb.png").write_bytes(PNG[:16] + side + side + b"x" * 50)
    (logged / "R² score.png").write_bytes(PNG)
    (logged / "table.json").write_bytes(b"[[1]]")


def test_what_the_portal_would_refuse_is_left_out(
    files: LoggedFiles, service: Service, tmp_path: Path
) -> None:
    plant(tmp_path)
    files.send()
    (body,) = service.bodies
    assert (list(body["images"]), list(body["tables"])) == (["R² score"], ["table"])
    Logged.model_validate_json(json.dumps(body))


def test_of_thousands_of_files_few_are_read(
    files: LoggedFiles, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logged").mkdir()
    for number in range(3000):
        (tmp_path / f"logged/{number:04}.png").write_bytes(PNG)
    seen: list[Any] = []
    for name in ("open", "stat"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, real=real, **b: seen.append(a) or real(*a, **b))
    files.send()
    assert len(service.bodies[0]["images"]) == 12 and len(seen) < 40
    (tmp_path / "logged/3000.png").write_bytes(PNG)
    files.send()
    assert len(service.bodies) == 1, "what is shown has not changed"


def test_a_later_picture_of_another_type_is_shown(files: LoggedFiles, service: Service) -> None:
    portal_metrics.log_image("plot", PNG)
    portal_metrics.log_image("plot", JPEG)
    files.send()
    assert base64.b64decode(service.bodies[0]["images"]["plot"]) == JPEG


def test_a_folder_that_is_exchanged_while_it_is_read(
    files: LoggedFiles, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever may write into a folder that is shared: the link leads to the user's pictures."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/plot.png").write_bytes(PNG + b"secret")
    (tmp_path / "logged").mkdir()
    (tmp_path / "logged/plot.png").write_bytes(PNG)
    real = os.listdir

    def exchanged(*place: Any) -> list[str]:
        names = real(*place)
        (tmp_path / "logged").rename(tmp_path / "old")
        (tmp_path / "logged").symlink_to(tmp_path / "private")
        return names

    monkeypatch.setattr(os, "listdir", exchanged)
    files.send()
    assert base64.b64decode(service.bodies[0]["images"]["plot"]) == PNG


def test_a_disk_that_does_not_answer_takes_no_picture_away(
    files: LoggedFiles, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal_metrics.log_image("plot", PNG)
    files.send()

    def stale(*_: Any) -> list[str]:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "listdir", stale)
    files.send()
    assert len(service.bodies) == 1


@pytest.mark.parametrize("text", ["", "{}", "7", "[1]", '[["a"], 1]', "[" * 100_000])
def test_what_is_no_table(files: LoggedFiles, service: Service, tmp_path: Path, text: str) -> None:
    (tmp_path / "logged").mkdir()
    (tmp_path / "logged/table.json").write_text(text)
    files.send()
    assert service.bodies[0]["tables"] == {}


def test_outside_of_a_run_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTAL_METRICS", raising=False)
    portal_metrics.log_image("plot", PNG)
    portal_metrics.log_table("table", [["a"]])
