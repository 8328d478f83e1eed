"""Resumable uploads, and downloads: a real session's server, real files, and connections that are
cut."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import random
import socket
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from machine import patience
from session_server import BASE, TOKEN, SessionServer, a_server, make_python, wait_for

MIB = 1 << 20
TUS = {"Tus-Resumable": "1.0.0"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionServer]:
    python = make_python(tmp_path_factory.mktemp("uploads") / "venv")
    # Another limit of silence, as a configuration file is executed before extensions are loaded.
    config = python.parent / "quick_config.py"
    config.write_text(
        "import os\n"
        "from portal_session.uploads import handlers\n"
        f"handlers.SILENCE = {patience(5)}\n"
        "os.environ['PORTAL_PROJECT_FOLDER'] = os.environ['HOME'] + '/project'\n"
    )
    path = f"bin:{python.parent}:{os.environ['PATH']}"  # of the home first
    with a_server(python, f"--config={config}", PATH=path) as made:
        (made.home / "data").mkdir()
        yield made


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def begin(server: SessionServer, name: str, length: Any, folder: str = "data", **more: Any) -> Any:
    metadata = f"filename {coded(name)},folder {coded(folder)}"
    if more.pop("more", ""):
        metadata += f",replace {coded('yes')}"
    headers = TUS | {"Upload-Length": str(length), "Upload-Metadata": metadata}
    return server.client.post("portal/uploads", headers=headers | more.pop("headers", {}), **more)


def begun(server: SessionServer, name: str, length: int, folder: str = "data") -> str:
    answer = begin(server, name, length, folder)
    assert answer.status_code == 201, answer.text
    return str(answer.headers["Location"]).removeprefix(BASE)


def patch(server: SessionServer, upload: str, offset: int, data: Any, **headers: str) -> Any:
    more = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    return server.client.patch(upload, content=data, headers=TUS | more | headers)


def offset_of(server: SessionServer, upload: str) -> int:
    answer = server.client.head(upload, headers=TUS)
    assert answer.status_code == 200, answer.status_code
    return int(answer.headers["Upload-Offset"])


def parts(server: SessionServer, name: str) -> list[Path]:
    return list((server.home / "data").glob(f".{name}.*.part"))


def cut(
    server: SessionServer, upload: str, offset: int, data: bytes, sent: int, written: bool
) -> None:
    """Send ``sent`` bytes of the rest in one request, and reset the connection, at once or when a
    part of them is ``written``."""
    url = httpx.URL(server.url)
    head = (
        f"PATCH {BASE}{upload} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
        f"Authorization: token {TOKEN}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: {offset}\r\n"
        f"Content-Length: {len(data) - offset}\r\n"
        "Content-Type: application/offset+octet-stream\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port)) as connection:
        with contextlib.suppress(ConnectionError):  # refused: the last one's bytes came since
            connection.sendall(head.encode() + data[offset : offset + sent])
        if written:
            (part,) = parts(server, "large.bin")
            wait_for(lambda: part.stat().st_size > offset)
        # SO_LINGER of 0: a reset, as of a network that is gone (socket(7)).
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_an_upload_that_is_cut_twenty_times(server: SessionServer) -> None:
    data = random.Random(1).randbytes(40 * MIB)
    upload, drawn, gained = begun(server, "large.bin", len(data)), random.Random(2), 0
    for number in range(20):
        offset = offset_of(server, upload)
        # Of more than 2 MiB, the server writes what it has while the rest arrives.
        written = number % 2 == 0
        sent = drawn.randrange(2 * MIB + 1, 3 * MIB) if written else drawn.randrange(3 * MIB)
        cut(server, upload, offset, data, sent, written)
        gained += offset_of(server, upload) > offset
    assert gained >= 10
    file = server.home / "data" / "large.bin"
    assert not file.exists()
    offset = offset_of(server, upload)
    answer = patch(server, upload, offset, data[offset:])
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, str(len(data)))
    assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(data).digest()
    assert parts(server, "large.bin") == []
    # A client that missed the last answer sees that the upload is whole.
    assert offset_of(server, upload) == len(data)
    assert file.stat().st_nlink == 1 and stat.S_IMODE(file.stat().st_mode) & 0o600 == 0o600


def test_an_upload_needs_little_memory(server: SessionServer) -> None:
    source = server.home / "source.bin"
    with source.open("wb") as file:
        for _ in range(200):
            file.write(os.urandom(MIB))
    upload = begun(server, "fast.bin", 200 * MIB)
    before = memory(server)
    url = f"{server.url}{BASE}{upload}"
    headers = {"Authorization": f"token {TOKEN}", "Upload-Offset": "0", "Expect": ""} | TUS
    headers["Content-Type"] = "application/offset+octet-stream"
    words = [word for key, value in headers.items() for word in ("-H", f"{key}: {value}")]
    subprocess.run(["curl", "-sf", "-X", "PATCH", "-T", source, *words, url], check=True)
    assert memory(server, "VmHWM") - before < 50
    file = server.home / "data" / "fast.bin"
    assert (
        hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(source.read_bytes()).digest()
    )
    file.unlink()


def memory(server: SessionServer, kind: str = "VmRSS") -> int:
    """Return the MiB of the server's process."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) // 1024


def test_the_newest_request_writes(server: SessionServer) -> None:
    """A connection that hangs does not keep its successor out."""
    data = random.Random(3).randbytes(20 * MIB)
    upload = begun(server, "taken.bin", len(data))
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port)) as hanging:
        head = (
            f"PATCH {BASE}{upload} HTTP/1.1\r\nHost: localhost\r\nAuthorization: token {TOKEN}\r\n"
            "Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Length: 20971520\r\n"
            "Content-Type: application/offset+octet-stream\r\n\r\n"
        )
        hanging.sendall(head.encode() + b"x" * (9 * MIB))
        (part,) = parts(server, "taken.bin")
        wait_for(lambda: part.stat().st_size >= 4 * MIB)
        offset = offset_of(server, upload)
        assert patch(server, upload, offset, data[offset:]).status_code == 204
        with contextlib.suppress(ConnectionError):  # it was closed
            hanging.sendall(b"y" * (11 * MIB))
    written = (server.home / "data" / "taken.bin").read_bytes()
    assert written[offset:] == data[offset:] and written[:offset] == b"x" * offset


@pytest.mark.parametrize(
    ("name", "folder", "length", "status", "words"),
    [
        ("", "data", 1, 400, "name of a file"),
        ("..", "data", 1, 400, "name of a file"),
        ("a/b", "data", 1, 400, "name of a file"),
        ("../b", "data", 1, 400, "name of a file"),
        ("a\nb", "data", 1, 400, "control"),
        ("x" * 241, "data", 1, 400, "240 bytes"),
        ("new", "missing", 1, 404, "no folder that you can use"),
        ("new", "data", "-1", 400, "Upload-Length"),
        ("new", "data", "x", 400, "Upload-Length"),
        ("new", "data", "", 400, "Upload-Length"),
        ("new", "data", 1 << 43, 413, "free space"),
        ("new", "data", 1 << 60, 400, "at most"),
        ("new", "/sys", 0, 403, "not write to /sys"),
        ("there", "data", 1, 409, "exists"),
        ("dangling", "data", 1, 409, "exists"),
    ],
)
def test_refusals(
    server: SessionServer, name: str, folder: str, length: Any, status: int, words: str
) -> None:
    (server.home / "data" / "there").write_text("kept")
    if not (server.home / "data" / "dangling").is_symlink():
        (server.home / "data" / "dangling").symlink_to(server.home / "nowhere")
    before = sorted(path.name for path in (server.home / "data").iterdir())
    answer = begin(server, name, length, folder)
    assert answer.status_code == status and words in answer.json()["message"], answer.text
    assert sorted(path.name for path in (server.home / "data").iterdir()) == before


def test_wrong_requests(server: SessionServer) -> None:
    upload = begun(server, "wrong.bin", 10)
    for offset, data, headers, status in (
        (1, b"x", {}, 409),
        (0, b"x" * 11, {}, 413),
        (0, b"x", {"Content-Type": "text/plain"}, 415),
        (0, b"x", {"Tus-Resumable": "0.2.2"}, 412),
        (0, b"x", {"Upload-Offset": "-1"}, 400),
    ):
        answer = patch(server, upload, offset, data, **headers)
        assert answer.status_code == status, (answer.text, status)
    assert offset_of(server, upload) == 0
    for path in ("portal/uploads/" + "0" * 32, "portal/uploads/../uploads/x"):
        assert server.client.head(path, headers=TUS).status_code == 404
    stranger = httpx.Client(base_url=server.url + BASE)
    assert stranger.post("portal/uploads", headers=TUS).status_code == 403
    assert stranger.patch(upload, headers=TUS, content=b"x").status_code == 403
    assert stranger.delete(upload, headers=TUS).status_code == 403
    assert begin(server, "x", 1, headers={"Upload-Metadata": "filename ="}).status_code == 400
    answer = server.client.options("portal/uploads")
    assert answer.headers["Tus-Extension"] == "creation,termination"
    assert parts(server, "wrong.bin") != []
    assert server.client.delete(upload, headers=TUS).status_code == 204
    assert parts(server, "wrong.bin") == []
    assert server.client.head(upload, headers=TUS).status_code == 404


def test_parts_that_were_replaced(server: SessionServer) -> None:
    """In a shared folder, others may put something in the part's place."""
    victim = server.home / "victim"
    for plant in ("link", "hard link", "file", "pipe", "nothing"):
        victim.write_text("mine")
        upload = begun(server, f"shared-{plant}", 5)
        (part,) = parts(server, f"shared-{plant}")
        part.rename(server.home / "data" / "was")  # or a new file could have its inode
        if plant == "link":
            part.symlink_to(victim)
        elif plant == "hard link":
            part.hardlink_to(victim)
        elif plant == "file":
            part.write_text("")
        elif plant == "pipe":
            os.mkfifo(part)
        answer = server.client.head(upload, headers=TUS)
        assert answer.status_code == 410, plant
        assert patch(server, upload, 0, b"12345").status_code == 410, plant
        assert server.client.delete(upload, headers=TUS).status_code == 204
        part.unlink(missing_ok=True)
        (server.home / "data" / "was").unlink()
        assert victim.read_text() == "mine"


def test_a_name_that_was_taken_meanwhile(server: SessionServer) -> None:
    upload, file = begun(server, "raced", 4), server.home / "data" / "raced"
    file.write_text("another's")
    answer = patch(server, upload, 0, b"1234")
    assert answer.status_code == 423 and "exists by now" in answer.json()["message"]
    # A client takes an upload that has all bytes for a whole one.
    assert server.client.head(upload, headers=TUS).status_code == 423
    assert file.read_text() == "another's"
    file.unlink()
    assert offset_of(server, upload) == 4
    assert file.read_text() == "1234"


def test_an_empty_file(server: SessionServer) -> None:
    begun(server, "empty ü €", 0)
    assert (server.home / "data" / "empty ü €").read_bytes() == b""
    assert parts(server, "empty*") == []


def test_a_file_is_replaced_only_if_asked_for(server: SessionServer) -> None:
    file = server.home / "data" / "old"
    file.write_text("before")
    assert begin(server, "old", 5).status_code == 409
    answer = begin(server, "old", 5, more="replace")
    upload = str(answer.headers["Location"]).removeprefix(BASE)
    assert patch(server, upload, 0, b"af").status_code == 204
    assert file.read_text() == "before"
    assert patch(server, upload, 2, b"ter").status_code == 204
    assert file.read_text() == "after" and parts(server, "old") == []
    (server.home / "data" / "folder").mkdir()
    assert begin(server, "folder", 5, more="replace").status_code == 400


def test_unfinished_uploads_are_listed_and_bounded(server: SessionServer) -> None:
    for item in server.client.get("portal/uploads").json()["items"]:
        server.client.delete(f"portal/uploads/{item['id']}")
    upload = begun(server, "listed", 10)
    assert patch(server, upload, 0, b"123").status_code == 204
    (item,) = server.client.get("portal/uploads").json()["items"]
    assert (item["name"], item["offset"], item["length"]) == ("listed", 3, 10)
    assert upload.endswith(item["id"])
    for number in range(49):
        begun(server, f"many-{number}", 1)
    answer = begin(server, "many-50", 1)
    assert answer.status_code == 429 and "50 unfinished uploads" in answer.json()["message"]
    records = server.home / ".local/share/jupyter/portal-uploads"
    assert stat.S_IMODE(records.stat().st_mode) == 0o700
    for record in records.glob("*.json"):
        os.utime(record, (1, 1))  # long ago
    assert server.client.get("portal/uploads").json()["items"] == []
    assert parts(server, "*") == [] and list(records.iterdir()) == []


def test_a_full_disk(server: SessionServer) -> None:
    """Two uploads have room each, and not both."""
    place = server.home / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        data = random.Random(5).randbytes(4 * MIB)
        first, second = (begun(server, name, len(data), "small") for name in ("a", "b"))
        assert patch(server, first, 0, data).status_code == 204
        answer = patch(server, second, 0, data)
        assert answer.status_code == 507 and "full" in answer.json()["message"], answer.text
        (place / "a").unlink()
        offset = offset_of(server, second)
        assert 0 < offset < len(data)
        assert patch(server, second, offset, data[offset:]).status_code == 204
        assert (place / "b").read_bytes() == data
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        answer = begin(server, "c", 1, "small")
        assert answer.status_code == 403 and "read-only" in answer.json()["message"]
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_links_of_others_and_out_of_the_project(server: SessionServer) -> None:
    secret, project = server.home / ".ssh", server.home / "project"
    for folder in (secret, project, project / "inside"):
        folder.mkdir()
    (project / "out").symlink_to(secret)
    (project / "in").symlink_to("inside")
    (server.home / "theirs").symlink_to(secret)
    os.lchown(server.home / "theirs", 4242, 4242)
    (server.home / "mine").symlink_to(secret)
    for folder, words in (
        ("project/out", "leads out of the project's folder"),
        ("mine/../project/out", "leads out of the project's folder"),
        (str(project / "inside/../out"), "leads out of the project's folder"),
        ("theirs", "another user has made"),
    ):
        answer = begin(server, "authorized_keys", 0, folder)
        assert answer.status_code == 403 and words in answer.json()["message"], answer.text
    assert list(secret.iterdir()) == []
    begun(server, "key", 0, "mine")  # an own link, outside of the project
    begun(server, "file", 0, "project/in")
    assert (secret / "key").exists() and (project / "inside" / "file").exists()
    # A folder that becomes a link while the upload is on its way.
    upload = begun(server, "late", 4, "project/inside")
    (project / "inside").rename(project / "was")
    (project / "inside").symlink_to(secret)
    assert patch(server, upload, 0, b"1234").status_code == 410
    assert [path.name for path in secret.iterdir()] == ["key"]


def test_connections_that_only_hold(server: SessionServer) -> None:
    """Four requests write at once; those that send nothing end, and what they sent is kept."""
    url, data = httpx.URL(server.url), b"x" * 100
    uploads = [begun(server, f"held-{number}", 100) for number in range(5)]
    holding = []
    for upload in uploads[:4]:
        connection = socket.create_connection((url.host, url.port))
        head = (
            f"PATCH {BASE}{upload} HTTP/1.1\r\nHost: localhost\r\nAuthorization: token {TOKEN}\r\n"
            "Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Length: 100\r\n"
            "Content-Type: application/offset+octet-stream\r\n\r\n"
        )
        connection.sendall(head.encode() + data[:7])
        holding.append(connection)
    answer = wait_for(
        lambda: answer if (answer := patch(server, uploads[4], 0, b"")).status_code != 204 else None
    )
    assert answer.status_code == 503 and "4 uploads" in answer.json()["message"]
    for connection in holding:
        connection.settimeout(60)
        assert connection.recv(100) == b""  # the server has closed it
        connection.close()
    assert patch(server, uploads[4], 0, data).status_code == 204
    assert [offset_of(server, upload) for upload in uploads] == [7, 7, 7, 7, 100]


def test_a_part_of_a_file_is_downloaded(server: SessionServer) -> None:
    """As JupyterLab's download does it: a browser goes on where it was cut."""
    data = random.Random(7).randbytes(5 * MIB)
    (server.home / "data" / "model.bin").write_bytes(data)
    answer = server.client.get("files/data/model.bin", headers={"Range": "bytes=1000000-"})
    assert answer.status_code == 206 and answer.content == data[1_000_000:]


def test_a_folder_is_downloaded(server: SessionServer, tmp_path: Path) -> None:
    folder = server.home / "-a ü"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").write_bytes(random.Random(8).randbytes(3 * MIB))
    (folder / "secret").symlink_to("/etc/hostname")
    answer = server.client.get("portal/download", params={"folder": "-a ü"})
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''-a%20%C3%BC.tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path)
    copy = tmp_path / "-a ü"
    assert (copy / "below" / "file").read_bytes() == (folder / "below" / "file").read_bytes()
    assert (copy / "secret").is_symlink()
    for path, status, words in (
        ("missing", 404, "no folder"),
        ("data/model.bin", 400, "not a folder"),
        ("a\0b", 404, "no folder"),
        ("small", 400, "empty"),
    ):
        (server.home / "small").mkdir(exist_ok=True)
        answer = server.client.get("portal/download", params={"folder": path, "check": "yes"})
        assert answer.status_code == status and words in answer.json()["message"], answer.text
    stranger = httpx.Client(base_url=server.url + BASE)
    assert stranger.get("portal/download", params={"folder": "data"}).status_code in (302, 403)


def test_a_download_that_is_left_ends_its_program(server: SessionServer) -> None:
    with (server.home / "data" / "sparse").open("wb") as file:
        file.truncate(2 * 1024 * MIB)
    with server.client.stream("GET", "portal/download", params={"folder": "data"}) as answer:
        pieces = answer.iter_raw(100)  # a name, or the answer is closed with it
        assert next(pieces)
        assert tars(server)
    wait_for(lambda: not tars(server))
    (server.home / "data" / "sparse").unlink()


def test_a_folder_that_cannot_be_read_is_no_whole_download(server: SessionServer) -> None:
    """tar fails, after it has sent the rest: the browser must not take it for complete."""
    (server.home / "bin").mkdir()
    tar = server.home / "bin" / "tar"
    tar.write_text("#!/bin/sh\n/bin/tar \"$@\"\necho 'tar: x: Permission denied' >&2\nexit 2\n")
    tar.chmod(0o755)
    with pytest.raises(httpx.RemoteProtocolError):
        server.client.get("portal/download", params={"folder": "bin"})


def tars(server: SessionServer) -> list[psutil.Process]:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [child for child in children if child.name() == "tar"]
