"""What builds refuse, each with its sentence, and what they leave: nothing. Real Apptainer and a
real registry where it is about them."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import images
import pytest
from image_builds import REPOSITORY, build_job, limited_root, mirror, program
from registry import Registry, registry

from portal.images.apptainer import signing
from portal.images.apptainer.apptainer import Apptainer
from portal.images.apptainer.definition_file import read_definition
from portal.images.jobs import build_dir, building, container_paths, node_cache
from portal.images.jobs.definition import build_key, image_path, path_digest, recipe_key
from portal.images.jobs.layers import platform_of
from portal.images.jobs.probe import FoundPython
from portal.images.outcome import CouldNotRun, WorkFailed
from portal.models.catalog.environment import Environment
from portal.models.catalog.image import parse_source
from portal.models.catalog.image_job import ImageJob, Work

pytestmark = pytest.mark.containers

SOURCE = f"docker://nvcr.io/{REPOSITORY}"
ABSENT = f"sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def server() -> Iterator[Registry]:
    with registry() as found:
        yield found


@pytest.fixture(autouse=True)
def _root_here(monkeypatch):
    for name, value in limited_root().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not in /tmp, whose links and modes are the machine's."""
    folder = Path(tempfile.mkdtemp(prefix="images-", dir="/var/tmp"))
    yield folder
    build_dir.remove_tree(folder)


@pytest.fixture(scope="module")
def sif() -> Iterator[Path]:
    """A small image file: a shell and no Python."""
    with tempfile.TemporaryDirectory(prefix="sif-", dir="/var/tmp") as folder:
        path = Path(folder) / f"{'a' * 64}-0123456789.sif"
        layout = images.bare().layout
        apptainer = Apptainer(str(program()), temporary=folder, log=lambda line: None)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in limited_root().items():
                patch.setenv(name, value)
            apptainer.build(path, f"oci:{layout}", what="make an image")
        yield path


@pytest.fixture
def keyring(tmp_path) -> tuple[str, str]:
    """A folder with a new PGP key, and its fingerprint."""
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    apptainer = Apptainer(str(program()), keyring=str(folder), log=lambda line: None)
    words = ["newpair", "--name", "Builds", "--email", "b@example.org", "--comment", "test"]
    # spython drops empty words, so the empty passphrase stands in the same one.
    words += ["--password=", "--push=false", "--bit-length=2048"]
    apptainer._stream("key", words, what="make a key")
    lines = apptainer.keys()
    (line,) = (line for line in lines if "Fingerprint" in line)
    return str(folder), line.split(":")[1].strip()


def left(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name != ".cache"]


def refused(job: ImageJob, kind: type[Exception] = WorkFailed) -> str:
    with pytest.raises(kind) as caught:
        building.build(job, lambda event: None)
    assert left(Path(job.directory)) == []
    return caught.value.message


# -- registries and architectures ------------------------------------------------------------------


def test_an_unknown_digest(server, directory, tmp_path):
    conf = mirror(server, tmp_path / "registries.conf")
    said = refused(build_job(directory, f"{SOURCE}@{ABSENT}", ABSENT, registries_conf=conf))
    assert said.startswith("Cannot pull the image: ")


def test_a_registry_that_is_away(directory, tmp_path):
    source = f"docker://127.0.0.1:1/{REPOSITORY}@{ABSENT}"
    said = refused(build_job(directory, source, ABSENT), CouldNotRun)
    assert said.startswith("The registry does not answer: ")


def test_an_image_with_nothing_in_it(server, directory, tmp_path):
    digest = server.push(REPOSITORY, "empty", images.foreign())
    conf = mirror(server, tmp_path / "registries.conf")
    said = refused(build_job(directory, f"{SOURCE}@{digest}", digest, registries_conf=conf))
    assert said.startswith("This image has no working shell (/bin/sh)")


def test_a_shell_for_another_machine_is_seen_before_it_is_started(tmp_path):
    (tmp_path / "bin").mkdir()
    head = bytearray(b"\x7fELF\x02\x01\x01" + bytes(13))
    head[18:20] = (183).to_bytes(2, "little")
    (tmp_path / "bin/dash").write_bytes(head)
    (tmp_path / "bin/sh").symlink_to("/bin/dash")  # a link of the image, not of this machine
    assert container_paths.architecture(tmp_path) == "aarch64"
    with pytest.raises(WorkFailed, match="for arm64, but the nodes are amd64"):
        container_paths.check_architecture("aarch64", "x86_64")
    container_paths.check_architecture("amd64", "x86_64")
    container_paths.check_architecture("", "x86_64")


# -- room ------------------------------------------------------------------------------------------


def test_too_little_room_is_said_before_anything_is_fetched(directory, monkeypatch):
    job = build_job(directory, f"{SOURCE}@{ABSENT}", ABSENT, size=10 * 1024**3)
    usage = SimpleNamespace(total=1, used=1, free=3 * 1024**3)
    monkeypatch.setattr(build_dir.shutil, "disk_usage", lambda path: usage)
    said = refused(job, CouldNotRun)
    assert f"There is no space left in '{directory}'" in said
    assert "needs about 61.4 GiB, and 3.0 GiB is free" in said


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        WorkFailed("Cannot pull the image: write: no space left on device"),
        WorkFailed("The packages cannot be installed: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_fills_on_the_way(directory, monkeypatch, error):
    def fetch(self, apptainer, root, work):
        (work / "half").write_text("half")
        raise error

    monkeypatch.setattr(building._Build, "_fetch", fetch)
    said = refused(build_job(directory, f"{SOURCE}@{ABSENT}", ABSENT), CouldNotRun)
    assert "There is no space left in" in said and "GiB is free" in said


def test_a_folder_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CouldNotRun, match=r"c\.Images\.directory"):
        with build_dir.workplace(file):
            pass


def test_what_a_living_build_has_stays(directory):
    with build_dir.workplace(directory) as mine:
        dead = directory / ".build-dead"
        (dead / "root/locked").mkdir(parents=True)
        (dead / "root/locked").chmod(0)
        (dead / "lock").touch()
        assert build_dir.remove_left(directory) == [".build-dead"]
        assert mine.exists() and not dead.exists()
    assert left(directory) == []


def test_another_job_looks_while_a_build_begins(directory, monkeypatch):
    lock = build_dir.fcntl.flock

    def looked_at(*held):
        monkeypatch.setattr(build_dir.fcntl, "flock", lock)
        assert build_dir.remove_left(directory) == []
        lock(*held)

    monkeypatch.setattr(build_dir.fcntl, "flock", looked_at)
    with build_dir.workplace(directory) as mine:
        assert build_dir.fcntl.flock is lock
        assert build_dir.remove_left(directory) == []
        (mine / "home").mkdir()
    assert left(directory) == []


# -- files -----------------------------------------------------------------------------------------


def definition(folder: Path, text: str) -> Path:
    path = folder / "site.def"
    path.write_text(text)
    return path


HEAD = "Bootstrap: docker\nFrom: debian:12\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Bootstrap: debootstrap\nOSVersion: bookworm\n", "line 1: the bootstrap 'debootstrap'"),
        ("bootstrap : yum\n", "the bootstrap 'yum' needs root"),
        (f"{HEAD}Bootstrap: zypper\n", "line 3: the bootstrap 'zypper' needs root"),
        (f"{HEAD}%setup\n  touch /x\n", "line 3: %setup runs on the node"),
        (f"{HEAD}%SETUP\n  touch /x\n", "%setup runs on the node"),
        (f"{HEAD}%files\n  /etc/shadow /x\n", "%files would copy '/etc/shadow'"),
        (f"{HEAD}%files\n  ../key /x\n", "%files would copy '../key'"),
        (f"{HEAD}%files\n  outside/shadow /x\n", "%files would copy 'outside/shadow'"),
        (f'{HEAD}%files\n  "outside/shadow" /x\n', "%files would copy 'outside/shadow'"),
        (f"{HEAD}%files\n  'outside/shadow' /x\n", "is not a supported name"),
        (f'{HEAD}%files\n  "a /../../etc/shadow" /x\n', "is not a supported name"),
        (f"{HEAD}%files\n  $HOME/.apptainer/keys /x\n", "is not a supported name"),
        (f"{HEAD}%files\n  $(touch${{IFS}}/tmp/x) /x\n", "is not a supported name"),
        (f"{HEAD}%files\n  `id` /x\n", "is not a supported name"),
        (f"{HEAD}%files from other\n  /$(id) /x\n", "is not a supported name"),
        (f"{HEAD}%files\n  -t/tmp /x\n", "is not a supported name"),
        (f"{HEAD}%files\n  *t /x\n", "would be read as an option of cp"),
        (f"{HEAD}%files\n  a#/../../etc/shadow /x\n", "is not a supported name"),
        (f"{HEAD}%files\n  {{{{ key }}}} /x\n", "is not a supported name"),
        (f"{HEAD}%files\nbootstrap : x\n  /etc/shadow /x\n", "copy '/etc/shadow'"),
        (f"{HEAD}%files\n # a\x0b%post\n  /etc/shadow /x\n", "control characters"),
        (f"{HEAD}%files\n # a\u2028%post\n  /etc/shadow /x\n", "control characters"),
        (f"{HEAD}%appfiles one\n  /etc/shadow x\n", "'%appfiles one' is not a supported section"),
        (f"{HEAD}%pre\n  touch /x\n", "line 3: %pre runs on the node"),
        (f"{HEAD}%%setup\n  touch /x\n", "'%%setup' is not a supported section"),
        (f"{HEAD}%setup\t\n  touch /x\n", "is not a supported section"),
        (
            f"{HEAD}%arguments\n  a=%setup\n{{{{ a }}}}\n  id\n",
            "'%arguments' is not a supported section",
        ),
        (f"{HEAD}%files\n  out* /x\n", "%files would copy 'outside"),
        (f"{HEAD}%post\n  true && sudo apt install x\n", "line 4: the file needs root"),
        ("Bootstrap: localimage\nFrom: /tmp/base.sif\n", "line 2: '/tmp/base.sif' is in a temp"),
        ("From: /var/tmp/base:1\nBootstrap: oci\n", "line 1: '/var/tmp/base:1' is in a temp"),
        ("Bootstrap: oci\nfrom : /var/../tmp/base\n", "which builds do not see (/tmp, /var/tmp)"),
        ("just words\n", "no line 'Bootstrap: …'"),
        ("x" * 300_000, "larger than 256 KiB"),
    ],
)
def test_definition_files_that_are_not_followed(tmp_path, text, said):
    (tmp_path / "outside").symlink_to("/etc")
    (tmp_path / "-t").touch()
    with pytest.raises(WorkFailed, match=r"site\.def") as caught:
        read_definition(definition(tmp_path, text))
    assert said in caught.value.message


def test_a_definition_file_that_is_followed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_text("1")
    text = (
        f"{HEAD}%files\n  data /x # ours\n%files from other\n  /bin/a /b\n%post\n  echo sudoers\n"
    )
    path = definition(tmp_path, text)
    assert read_definition(path) == text
    before = path_digest(parse_source(str(path)))
    (tmp_path / "data/a").write_text("2")
    assert path_digest(parse_source(str(path))) != before


def test_a_definition_file_is_built_as_it_was_read(directory, tmp_path, monkeypatch):
    """A real one: what %post makes is there; it stops before the long part."""
    layout = images.bare().layout
    # Apptainer itself stays where it is: of the folders above it, nothing else is seen.
    prefix = Path(os.path.realpath(program())).parents[1]
    temporary = [folder for folder in prefix.parents if folder.is_relative_to("/var/tmp")]
    folders = " ".join(f"{folder}/*" for folder in ["/var/tmp", *temporary])
    path = definition(
        tmp_path,
        f"Bootstrap: oci\nFrom: {layout}\n%files\n  data /data\n%post\n  echo 1 >/made\n"
        f"  echo /tmp/* {folders} >/others\n",
    )
    (tmp_path / "data").write_text("here")
    seen: dict[str, str] = {}

    def look(apptainer, root):
        seen["made"], seen["data"] = (root / "made").read_text(), (root / "data").read_text()
        seen["others"] = (root / "others").read_text()
        raise WorkFailed("stop here")

    monkeypatch.setattr(building, "probe", look)
    digest = path_digest(parse_source(str(path)))
    assert refused(build_job(directory, str(path), digest)) == "stop here"
    others = set(seen.pop("others").split()[1:]) - {str(prefix), *map(str, temporary)}
    assert others <= {"/var/tmp/*"}, "other jobs of the account"
    assert seen == {"made": "1\n", "data": "here"}


def test_a_file_that_changed_meanwhile(directory, sif):
    said = refused(build_job(directory, str(sif), ABSENT))
    assert "has changed since this build was requested" in said


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "folder"])
def test_what_never_ends_is_not_read(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(WorkFailed, match=name):
        path_digest(parse_source(str(tmp_path / name)))


def test_a_file_that_is_no_image(directory, tmp_path):
    path = tmp_path / "a.sif"
    path.write_text("not an image")
    said = refused(build_job(directory, str(path), path_digest(parse_source(str(path)))))
    assert "is not a SIF image" in said
    said = refused(build_job(directory, str(tmp_path), ABSENT))
    assert "is not a file on" in said


def test_another_recipe_than_was_asked_for(directory):
    job = build_job(directory, f"{SOURCE}@{ABSENT}", ABSENT)
    target = image_path(str(directory), ABSENT, "0123456789")
    said = refused(job.model_copy(update={"target": str(target)}), CouldNotRun)
    assert "have changed since this build was requested" in said


def test_keys_name_what_is_in_an_image(tmp_path):
    (tmp_path / "portal_session-1-py3-none-any.whl").write_bytes(b"one")
    first = recipe_key(str(tmp_path))
    assert len(first) == 10 and recipe_key(str(tmp_path)) == first
    (tmp_path / "portal_session-1-py3-none-any.whl").write_bytes(b"two")
    assert recipe_key(str(tmp_path)) != first
    assert build_key(ABSENT, first) == f"{'0' * 64}-{first}"
    with pytest.raises(WorkFailed, match=r"c\.Images\.wheels"):
        recipe_key(str(tmp_path / "missing"))


# -- links out of an image -------------------------------------------------------------------------


def test_links_of_an_image_stay_in_it(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("its own")
    (tmp_path / "a").symlink_to("/etc/passwd")
    (tmp_path / "b").symlink_to("../../../../etc/passwd")
    (tmp_path / "loop").symlink_to("/loop")
    for name in ("a", "b"):
        assert container_paths.inside(tmp_path, name) == tmp_path / "etc/passwd"
    assert container_paths.inside(tmp_path, "loop") is None
    assert container_paths.inside(tmp_path, "etc/shadow") is None


def test_the_portals_folder_is_never_made_behind_a_link(tmp_path):
    root, victim = tmp_path / "root", tmp_path / "victim"
    (victim / "data-scientist-portal").mkdir(parents=True)
    root.mkdir()
    (root / "opt").symlink_to(victim)
    with pytest.raises(WorkFailed, match="'/opt' is not a folder in this image"):
        container_paths.make_room(root, "/opt/data-scientist-portal")
    assert (victim / "data-scientist-portal").exists()
    (root / "opt").unlink()
    (root / "opt/data-scientist-portal/bin").mkdir(parents=True)
    container_paths.make_room(root, "/opt/data-scientist-portal")
    assert list((root / "opt").iterdir()) == []


# -- what is found ---------------------------------------------------------------------------------


def python(version: tuple[int, int, int], **more: object) -> FoundPython:
    values = {
        "executable": "/usr/bin/python3",
        "base": "/usr/bin/python3",
        "version": version,
        "name": "cpython",
        "threads": False,
        "packages": ("a==1",),
        "freeze": ("a==1",),
        "ipykernel": None,
        "complete": True,
    }
    return FoundPython(**{**values, **more})


def test_which_pythons_can_hold_a_server():
    assert python((3, 9, 2)).holds_server and python((3, 14, 0)).holds_server
    for one in (
        python((3, 8, 10)),
        python((2, 7, 18)),
        python((3, 11, 0), complete=False),
        python((3, 11, 0), name="pypy"),
        python((3, 14, 0), threads=True),
    ):
        assert not one.holds_server


def test_a_build_that_would_change_the_images_packages_is_refused():
    building._unchanged(python((3, 11, 2)), python((3, 11, 2)))
    changed = python((3, 11, 2), freeze=("a==2",))
    with pytest.raises(WorkFailed, match=r"would change.*a==1, a==2"):
        building._unchanged(python((3, 11, 2)), changed)
    with pytest.raises(WorkFailed, match="no longer runs"):
        building._unchanged(python((3, 11, 2)), None)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
@pytest.mark.parametrize(
    ("libc", "words"),
    [
        ("glibc 2.36", "manylinux_2_36"),
        ("glibc 2.27", "manylinux_2_17"),
        ("glibc 2.30", "manylinux_2_28"),
        ("glibc 2.99", "manylinux_2_40"),
        ("musl", "unknown-linux-musl"),
    ],
)
def test_the_platform_that_packages_are_for(architecture, libc, words):
    assert platform_of(architecture, libc) == f"{architecture}-{words}"


# -- signatures ------------------------------------------------------------------------------------


def test_signatures(sif, keyring, tmp_path, directory):
    folder, fingerprint = keyring
    image = tmp_path / "b.sif"
    shutil.copy(sif, image)
    apptainer = Apptainer(str(program()), keyring=folder, log=lambda line: None)
    with pytest.raises(WorkFailed, match=r"'b\.sif' is refused: it is not signed"):
        signing.verify(apptainer, image)
    with pytest.raises(CouldNotRun, match=r"no secret key 'ABCD.*c\.Images\.sign_key"):
        signing.sign(apptainer, image, "ABCD" * 10)
    signing.sign(apptainer, image, fingerprint)
    signing.verify(apptainer, image)

    empty = tmp_path / "other-keys"
    empty.mkdir(mode=0o700)
    stranger = Apptainer(str(program()), keyring=str(empty), log=lambda line: None)
    with pytest.raises(WorkFailed, match="a key that is not in the keyring"):
        signing.verify(stranger, image)

    with image.open("r+b") as file:
        file.seek(image.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 255]))
    with pytest.raises(WorkFailed, match="its signature is broken"):
        signing.verify(apptainer, image)
    digest = path_digest(parse_source(str(image)))
    job = build_job(directory, str(image), digest, verify=True, keyring=folder)
    assert "its signature is broken" in refused(job)


# -- a node's own copy -----------------------------------------------------------------------------


def cache_job(image: Path, folder: Path, **more: object) -> ImageJob:
    environment = Environment(name="x", title="X", kind="container", image=str(image))
    values = {"apptainer": str(program()), "target": str(folder / image.stem)}
    return ImageJob(work=Work.CACHE, nonce="n", environment=environment, **{**values, **more})


@pytest.fixture
def cache(directory) -> Path:
    folder = directory / "cache"
    folder.mkdir(mode=0o755)
    return folder


def test_an_image_is_unpacked_once(sif, cache):
    target = Path(node_cache.unpack(cache_job(sif, cache), lambda event: None))
    assert target == cache / sif.stem
    assert (target / "bin/sh").exists()
    assert [path.name for path in cache.iterdir()] == [sif.stem]
    for path in target.rglob("*"):
        if not path.is_symlink():
            assert path.lstat().st_mode & 0o6022 == 0, path
            assert path.lstat().st_mode & 0o004, path
    before = target.stat().st_ctime_ns
    node_cache.unpack(cache_job(sif, cache), lambda event: None)
    assert target.stat().st_ctime_ns == before
    apptainer = Apptainer(str(program()), log=lambda line: None)
    assert apptainer.execute(target, ["echo", "hello"]).text == "hello\n"

    assert node_cache.prune(cache, older_than=60) == []
    assert node_cache.prune(cache, older_than=-1, keep=[sif.stem]) == []
    assert node_cache.prune(cache, older_than=-1) == [sif.stem]
    assert list(cache.iterdir()) == []


def test_an_unsigned_image_is_not_unpacked(sif, cache, keyring):
    job = cache_job(sif, cache, verify=True, keyring=keyring[0])
    with pytest.raises(WorkFailed, match="it is not signed"):
        node_cache.unpack(job, lambda event: None)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("how", ["open", "link", "missing", "above", "stranger"])
def test_a_folder_that_others_can_change_is_not_used(sif, cache, how):
    folder = cache
    if how == "open":
        cache.chmod(0o777)
    elif how == "link":
        folder = cache.with_name("link")
        folder.symlink_to(cache)
    elif how == "missing":
        folder = cache / "missing"
    elif how == "above":
        folder = cache / "deeper"
        folder.mkdir()
        cache.chmod(0o775)
    elif os.geteuid() == 0:
        os.chown(cache, 12345, 12345)
    else:
        pytest.skip("giving a folder away takes root")
    with pytest.raises(CouldNotRun, match=r"c\.Images\.node_cache"):
        node_cache.unpack(cache_job(sif, folder), lambda event: None)


def test_what_nobody_may_enter_is_pruned_too(cache):
    (cache / "old/locked").mkdir(parents=True)
    (cache / "old/locked").chmod(0)
    assert node_cache.prune(cache, older_than=-1) == ["old"]
    assert list(cache.iterdir()) == []
