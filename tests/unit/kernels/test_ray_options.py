"""What a node of a Ray cluster is told: resources of its job, keys, ports. With a real Ray:
tests/integration/kernels/test_ray_cluster.py."""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from portal_session.clusters import leaf
from portal_session.clusters.job.ray_node import bare, free_ports, parameters, temporary, variables
from portal_session.clusters.record import ClusterRecord
from portal_session.clusters.starter import ray_options
from portal_session.job_kernels.wire.keys import make_keys
from portal_session.programs.runtime import LONGEST_SOCKET, Runtime

JOB = {"SLURM_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "4", "SLURM_MEM_PER_NODE": "2000"}


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterRecord:
    monkeypatch.setenv("HOME", str(tmp_path))
    address = f"tls://{leaf.address_of('localhost')}:6000"
    return ClusterRecord(
        "5e2f3c1a0b7d4c8e", "/python", "/work", *make_keys(), "", address, "secret-token"
    )


def test_a_worker_has_what_its_job_has(record: ClusterRecord) -> None:
    own = json.loads(ray_options(record, 3, 600, {**JOB, "SLURM_GPUS_ON_NODE": "2"}))
    folder = Path(own["folder"])
    try:
        assert record.token not in json.dumps(own) and "PRIVATE" not in json.dumps(own)
        assert (own["name"], own["cpus"], own["gpus"]) == ("3-77", 4, 2)
        assert own["address"] == record.address.removeprefix("tls://")
        given = parameters(own)
        assert given["object_store_memory"] == pytest.approx(600 * 1024**2, abs=2)
        assert given["memory"] + given["object_store_memory"] <= 2000 * 1024**2
        assert given["temp_dir"] == temporary(own["folder"]) != own["folder"]
        assert (given["num_cpus"], given["num_gpus"]) == (4, 2)
        assert folder.stat().st_mode & 0o077 == 0
        named = [value for value in variables(own["folder"]).values() if value.startswith("/")]
        assert len(named) == 4
        for path in map(Path, named):
            assert path.stat().st_mode & 0o077 == 0
        assert (folder / "token").read_text() == "secret-token"
    finally:
        Runtime(folder).remove()


def test_a_nodes_certificate_is_signed_by_the_clusters(record: ClusterRecord) -> None:
    text, private_key = leaf.leaf(record.certificate, record.private_key, "192.0.2.7")
    signed = x509.load_pem_x509_certificate(text.encode())
    signed.verify_directly_issued_by(x509.load_pem_x509_certificate(record.certificate.encode()))
    with pytest.raises(InvalidSignature):
        signed.verify_directly_issued_by(x509.load_pem_x509_certificate(make_keys()[0].encode()))
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert found == {"192.0.2.7", "127.0.0.1"}
    own = load_pem_private_key(private_key.encode(), None).public_key()
    assert own == signed.public_key()
    assert private_key != record.private_key


def test_ports_are_the_sites_and_free() -> None:
    assert free_ports("", 3, "127.0.0.1") == [0, 0, 0]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"Ray needs 2 ports of {port}-{port} on this node, and"):
            free_ports(f"{port}-{port}", 2, "127.0.0.1")
    found = free_ports("45000-45040", 11, "127.0.0.1")
    assert len(set(found)) == 11 and all(45000 <= port <= 45040 for port in found)


def test_sockets_of_ray_have_short_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("a" * 40)
    long.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    made = Runtime.make({}, longest=leaf.SOCKET)
    try:
        assert len(f"{made.path}/{leaf.SOCKET}") <= LONGEST_SOCKET
        assert not made.path.is_relative_to(long)
    finally:
        made.remove()


def test_no_agent_with_open_pages_is_started() -> None:
    services = pytest.importorskip("ray._private.services")
    source = Path(services.__file__).read_text()
    assert "--dashboard_agent_command=" in source and '"--minimal"' in source
    started: list[list[str]] = []
    played = SimpleNamespace(start_ray_process=lambda command: started.append(command))
    bare(played)
    played.start_ray_process(["raylet", "--dashboard_agent_command=python agent.py", "--head"])
    assert started == [["raylet", "--dashboard_agent_command=python agent.py --minimal", "--head"]]
