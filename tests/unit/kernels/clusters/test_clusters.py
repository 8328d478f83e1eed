"""Records and workers' options of clusters, and the end of those whose kernel has ended. With real
workers: tests/integration/kernels/test_dask_cluster.py."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from portal_session.clusters import record as records
from portal_session.clusters.clusters import PATH, Clusters
from portal_session.clusters.record import ClusterRecord
from portal_session.clusters.starter import lifetime, options
from portal_session.job_kernels.record import BadRecord
from portal_session.job_kernels.wire.keys import make_keys
from portal_session.programs.program import connects
from portal_session.service import ServiceError

RECORD = ClusterRecord("5e2f3c1a0b7d", "/usr/bin/python3", "/home/ada", "certificate", "key")
KERNEL = {"python": "/usr/bin/python3", "cwd": "/home/ada"}


class Portal:
    """The portal, and the session's job kernels."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.errors: list[ServiceError] = []
        self.address = "gpu01"

    async def whereabouts(self) -> dict[str, str]:
        return {"listen": "127.0.0.1", "address": self.address}

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked.append((method, path, body))
        if self.errors:
            raise self.errors.pop()
        return {"most": 10, "workers": 2, "problem": ""}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def clusters(portal: Portal, home: Path) -> Clusters:
    made = Clusters(portal, "/user/ada/", {}, logging.getLogger("test"))
    return made


def test_workers_end_before_their_jobs_and_one_after_the_other() -> None:
    assert lifetime(0, 3) == 0
    for seconds in (60, 240, 3600, 86400):
        lives = [lifetime(seconds, number) for number in range(8)]
        assert max(lives) <= seconds - min(seconds // 8, 120) and min(lives) >= seconds * 0.4
        assert len(set(lives)) == 8
    assert [lifetime(240, number) for number in range(3)] == [210, 158, 190]


def test_a_worker_has_what_slurm_has_given_its_job(home: Path) -> None:
    environ = {"SLURM_JOB_ID": "12", "SLURM_CPUS_PER_TASK": "3", "SLURM_MEM_PER_NODE": "2048"}
    own = json.loads(options(RECORD, 1, 240, environ))
    assert own == {
        "record": str(home / ".portal/.clusters/5e2f3c1a0b7d.json"),
        "name": "1-12",
        "threads": 3,
        "memory": 2 * 1024**3,
        "lifetime": 158,
    }
    assert json.loads(options(RECORD, 1, 0, {}))["threads"] == 0


def test_only_a_record_of_this_account_alone_is_read(home: Path) -> None:
    records.write(RECORD)
    path = records.path_of(RECORD.id)
    assert records.read(RECORD.id) == RECORD and path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(BadRecord, match="can be read or written by others"):
        records.read(RECORD.id)
    path.chmod(0o600)
    for text in ("{}", "[]", "no json", json.dumps({**RECORD._asdict(), "more": 1})):
        path.write_text(text)
        with pytest.raises(BadRecord, match="is damaged"):
            records.read(RECORD.id)
    path.write_text(json.dumps(RECORD._replace(id="0123456789")._asdict()))
    with pytest.raises(BadRecord, match="another cluster's"):
        records.read(RECORD.id)
    path.unlink()
    path.symlink_to(home / "elsewhere")
    with pytest.raises(BadRecord, match="cannot be read"):
        records.read(RECORD.id)
    with pytest.raises(BadRecord, match="not the id"):
        records.path_of("../x")


def test_a_scheduler_that_is_busy_for_long_is_there(home: Path) -> None:
    """Its kernel computes, and has taken no connection since the queue of its socket was full."""
    place = home / "scheduler"
    with socket.socket(socket.AF_UNIX) as scheduler, contextlib.ExitStack() as asked:
        scheduler.bind(str(place))
        assert not connects(place)
        scheduler.listen(0)
        for _ in range(3):
            other = asked.enter_context(socket.socket(socket.AF_UNIX))
            other.setblocking(False)
            full = other.connect_ex(str(place))
        assert full == errno.EAGAIN
        assert connects(place)
    assert not connects(place)


def test_the_certificate_is_good_enough_for_strict_pythons() -> None:
    """RFC 5280, 4.2.1: what OpenSSL wants of an authority with X509_V_FLAG_X509_STRICT, which
    Python sets from 3.13 on."""
    certificate = x509.load_pem_x509_certificate(make_keys()[0].encode())
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical and usage.value.key_cert_sign and usage.value.digital_signature
    digest = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    assert not digest.critical and len(digest.value.digest) == 20


async def test_a_cluster_is_made_and_asked_for(
    clusters: Clusters, portal: Portal, home: Path
) -> None:
    about = await clusters.make(KERNEL)
    id = about["id"]
    assert (about["most"], about["address"]) == (10, "gpu01")
    assert about["path"] == f"/user/ada/portal/clusters/{id}/"
    portal.errors.append(ServiceError("The portal is away.", 503, away=True))
    body = {"workers": 2, "resources": {"cpus": 1}, "address": "tls://gpu01:4000"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("portal_session.clusters.clusters._PAUSE", 0.0)
        await clusters.have(id, body)
    assert portal.asked[1:] == [("PUT", f"{PATH}/{id}", {"cpus": 1, "workers": 2})] * 2
    assert records.read(id).address == "tls://gpu01:4000"
    await clusters.end(id)
    assert portal.asked[-1][:2] == ("DELETE", f"{PATH}/{id}")
    assert not records.path_of(id).exists()
    for asked in (clusters.state(id), clusters.end(id), clusters.have(id, body)):
        with pytest.raises(ServiceError, match="no such cluster"):
            await asked
    clusters.stop()


@pytest.mark.parametrize(("engine", "said"), [("dask", {}), ("ray", {"engine": "ray"})])
async def test_the_panel_scales_it_with_what_its_kernel_asked_for(
    clusters: Clusters, portal: Portal, engine: str, said: dict[str, str]
) -> None:
    portal.address = "127.0.0.1"
    id = (await clusters.make({**KERNEL, "engine": engine}))["id"]
    body = {"workers": 2, "resources": {"cpus": 1}, "address": "tls://gpu01:4000"}
    await clusters.have(id, body)
    await clusters.scale(id, 5)
    path = f"{PATH}/{id}"
    assert portal.asked[1:] == [
        ("PUT", path, {"cpus": 1, **said, "workers": workers}) for workers in (2, 5)
    ]
    clusters.stop()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"python": "python3", "cwd": "/"}, "'python' must be an absolute path"),
        ({"python": "/usr/bin/python3"}, "'cwd' must be an absolute path"),
        ({"python": ["/x"], "cwd": "/"}, "'python' must be an absolute path"),
    ],
)
async def test_what_a_kernel_must_say(clusters: Clusters, body: Any, words: str) -> None:
    with pytest.raises(ServiceError, match=words):
        await clusters.make(body)


async def test_a_cluster_without_a_scheduler_is_ended(clusters: Clusters, portal: Portal) -> None:
    about = await clusters.make(KERNEL)
    id = about["id"]
    with socket.socket(socket.AF_UNIX) as page:
        page.bind(about["socket"])
        page.listen()
        for _ in range(30):
            await clusters.check_scheduler(id)
        assert id in clusters.clusters and clusters.socket(id) is not None
    assert clusters.socket(id) is None
    portal.errors.append(ServiceError("The portal is away.", 503, away=True))
    for _ in range(3):
        try:
            await clusters.check_scheduler(id)
        except ServiceError:
            break
    assert id in clusters.clusters, "it is tried again"
    await clusters.check_scheduler(id)
    assert not clusters.clusters
    clusters.stop()
