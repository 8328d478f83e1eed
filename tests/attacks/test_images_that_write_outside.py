"""An image whose links lead out of it: Apptainer writes its own files into an image that it
fetched, on the node and through links (1.4.5), so the folder of images would be overwritten by a
base image of somebody else. Real Apptainer."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import images
import pytest
from image_builds import build_job, limited_root

from portal.demo.home import Home
from portal.images.jobs import building
from portal.images.jobs.build_dir import remove_tree
from portal.images.jobs.definition import path_digest
from portal.images.outcome import CouldNotRun, WorkFailed
from portal.models.catalog.image import parse_source

pytestmark = pytest.mark.containers

# Link of the image to what of the victim's it leads to.
LINKS = {
    ".singularity.d": "",
    ".singularity.d/env": "",
    ".singularity.d/actions": "",
    ".singularity.d/libs": "",
    ".singularity.d/labels.json": "/0123.json",
    ".singularity.d/runscript": "/0123.sif",
    ".singularity.d/startscript": "/0123.sif",
    ".singularity.d/Apptainer": "/0123.sif",
    ".singularity.d/Singularity": "/0123.sif",
    ".singularity.d/env/10-docker2singularity.sh": "/0123.sif",
    ".singularity.d/env/90-environment.sh": "/new.sif",
    ".singularity.d/actions/exec": "/0123.sif",
    ".build.labels": "/0123.json",
    "environment": "/new.sif",
    "singularity": "/new.sif",
    "etc/resolv.conf": "/0123.sif",
    "etc/hosts": "/0123.sif",
    "proc": "",
    "tmp": "",
    "var/tmp": "",
    "dev": "",
    "root": "",
}


@pytest.fixture
def place() -> Iterator[Path]:
    # Not below /var/tmp, which builds do not see at all.
    folder = Path(tempfile.mkdtemp(prefix="images-", dir=Home.find().cache))
    yield folder
    remove_tree(folder)


def with_link(place: Path, link: str, target: str) -> Path:
    """An OCI layout of a shell, with one more layer that has the link."""
    layout, layer = place / "layout", place / "layer"
    shutil.copytree(images.bare().layout, layout)
    (layer / link).parent.mkdir(parents=True)
    (layer / link).symlink_to(target)
    top = link.partition("/")[0]
    argv = ["umoci", "insert", "--image", f"{layout}:latest", str(layer / top), f"/{top}"]
    subprocess.run(argv, check=True, capture_output=True)
    return layout


@pytest.mark.parametrize("link", LINKS)
def test_nothing_is_written_through_a_link(
    place: Path, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limited_root().items():
        monkeypatch.setenv(name, value)
    victim = place / "victim"
    victim.mkdir()
    (victim / "0123.sif").write_text("an image")
    (victim / "0123.json").write_text(json.dumps({"digest": "its own"}))
    layout = with_link(place, link, f"{victim}{LINKS[link]}")
    path = place / "site.def"
    path.write_text(f"Bootstrap: oci\nFrom: {layout}\n%labels\n  a b\n%runscript\n  id\n")

    def stop(*_: object) -> None:
        raise WorkFailed("stop here")

    monkeypatch.setattr(building, "probe", stop)
    directory = place / "images"
    directory.mkdir()
    job = build_job(directory, str(path), path_digest(parse_source(str(path))))
    with pytest.raises((WorkFailed, CouldNotRun)) as caught:
        building.build(job, lambda event: None)
    assert "conveyor" not in caught.value.message, "it was fetched"
    assert sorted(one.name for one in victim.rglob("*")) == ["0123.json", "0123.sif"]
    assert (victim / "0123.sif").read_text() == "an image"
    assert "its own" in (victim / "0123.json").read_text()
