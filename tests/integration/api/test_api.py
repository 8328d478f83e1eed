"""The API as it answers on the demo: real Slurm, real Hub, real tokens."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest
from api_client import API, SERVICE, Caller, error_of, read_events
from hub_client import Person, wait_until

from portal.models import scope


@pytest.fixture
def job(demo: Any, ada: Caller) -> Iterator[dict[str, Any]]:
    """A job of ada's with two GPUs, as she sees it once it runs."""
    id_ = submit(demo, "ada", "--gpus=v100:2", "--job-name=mine", "--time=10")
    yield wait_until(
        "the job runs",
        lambda: next((j for j in ada.items("jobs") if j["id"] == id_ and j["nodes"]), None),
    )
    demo.run(["scancel", id_])


def submit(demo: Any, name: str, *options: str) -> str:
    argv = ["sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 600"]
    return str(demo.run(argv, user=demo.user(name)).stdout.strip())


def table(answer: httpx.Response) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


# -- the cluster --------------------------------------------------------------------------------


def test_the_cluster_in_numbers(ada: Caller) -> None:
    body = ada.get("cluster").json()
    assert body["summary"]["nodes"] == 8
    assert sum(body["summary"]["gpus"].values()) == 20
    assert {one["name"] for one in body["partitions"]} >= {"gpu", "cpu"}
    assert 0 <= body["age"] < 30
    assert abs(time.time() - body["taken_at"]) < 60
    assert body["error"] == ""
    assert body["telemetry"]["simulated"] is True
    assert body["store"] == {"error": "", "error_since": None}


def test_rights_are_told_in_words(ada: Caller, grace: Caller) -> None:
    mine, hers = ada.get("cluster").json(), grace.get("cluster").json()
    assert mine["rights"] == ["models:use"]
    assert mine["control"] is None
    assert set(hers["rights"]) >= {"jobs:read", "jobs:manage", "nodes:manage", "audit:read"}
    assert set(hers["control"]) == {"jobs", "nodes", "known", "missing"}


def test_the_board_is_asked_for_again_only_when_it_is_new(ada: Caller) -> None:
    for _ in range(5):  # a new version may come in between
        answer = ada.get("board")
        again = ada.get("board", headers={"If-None-Match": answer.headers["etag"]})
        if again.status_code == 304:
            break
    assert again.status_code == 304
    assert again.content == b""
    assert answer.headers["cache-control"] == "private, no-cache"
    body = answer.json()
    assert set(body["nodes"]) >= {"gpu01", "cpu01"}
    assert body["gpus"]["gpu01/0"]["type"] == "v100"
    assert ada.get("board", headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_board_is_compressed_for_those_who_take_it(ada: Caller) -> None:
    with ada.stream("GET", "board", headers={"Accept-Encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(raw))["gpus"]) == 20
    plain = ada.get("board", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["etag"] != answer.headers["etag"]
    assert "Accept-Encoding" in plain.headers["vary"]


# -- lists --------------------------------------------------------------------------------------


def test_lists_have_pages(ada: Caller) -> None:
    first = ada.get("gpus", params={"limit": 7}).json()
    assert len(first["items"]) == 7
    assert first["total"] == 20
    whole = ada.items("gpus", limit=7)
    assert [(gpu["node"], gpu["index"]) for gpu in whole] == [
        (gpu["node"], gpu["index"]) for gpu in ada.items("gpus", limit=500)
    ]
    assert len({(gpu["node"], gpu["index"]) for gpu in whole}) == 20


def test_nodes(ada: Caller) -> None:
    assert {node["name"] for node in ada.items("nodes", type="t4")} == {"gpu05", "gpu06"}
    assert [node["name"] for node in ada.items("nodes", partition="cpu", sort="-name")] == [
        "cpu02",
        "cpu01",
    ]
    assert ada.items("nodes", text="gpu03")[0]["name"] == "gpu03"
    assert ada.get("nodes/gpu01").json()["gpus"] == 4
    assert error_of(ada.get("nodes/gpu99"))["message"] == "There is no node 'gpu99'."


def test_a_job_of_ones_own(demo: Any, ada: Caller, grace: Caller, job: dict[str, Any]) -> None:
    assert job["mine"] is demo.people
    if demo.people:
        assert (job["user"], job["name"]) == ("ada", "mine")
    [node] = job["nodes"]
    assert len(job["gpu_indexes"][node]) == 2
    assert job["words"] == "it is running"
    assert ada.get(f"jobs/{job['id']}").json()["id"] == job["id"]
    gpus = [gpu for gpu in ada.items("gpus", node=node) if gpu["job_id"] == job["id"]]
    assert len(gpus) == 2
    assert all(gpu["mine"] is demo.people for gpu in gpus)
    assert all(gpu["state"] in ("allocated", "busy", "idle") for gpu in gpus)
    hers = grace.get(f"jobs/{job['id']}").json()
    assert hers["mine"] is False
    assert hers["name"] == "mine"
    for query in ({"state": "running"}, {"node": node}, {"partition": "gpu"}, {"type": "v100"}):
        assert job["id"] in {one["id"] for one in ada.items("jobs", **query)}
    assert job["id"] not in {one["id"] for one in ada.items("jobs", state="pending")}


def test_a_job_that_is_not_there(ada: Caller) -> None:
    assert error_of(ada.get("jobs/999999999"))["code"] == "not_found"
    assert error_of(ada.get("jobs/x"))["code"] == "not_found"


def test_history(ada: Caller) -> None:
    now = time.time()
    wait_until(
        "a sample of the cluster",
        lambda: any(
            point["gpus_total"]
            for point in ada.items("history", start=now - 3600, end=time.time() + 60, points=10)
        ),
        timeout=90,
    )
    points = ada.items("history", start=now - 3600, end=now, points=10)
    assert len(points) <= 10
    assert points[0]["at"] <= now - 3600
    assert points[-1]["at"] + points[-1]["seconds"] >= now


def test_the_use_of_a_job_over_time(ada: Caller, grace: Caller, job: dict[str, Any]) -> None:
    path = f"jobs/{job['id']}/use"
    wait_until("the job's use was measured", lambda: ada.get(path).json()["parts"], timeout=90)
    (part,) = ada.get(path).json()["parts"]
    assert part["sources"] == "simulated" and part["gpu"][0] is not None
    assert grace.get(path).status_code == 200
    assert error_of(ada.get("jobs/999999999/use"))["code"] == "not_found"


def test_quantities_by_name(ada: Caller) -> None:
    def kinds() -> set[str]:
        series = ada.get("history/series", params={"points": 10}).json()["series"]
        return {one["kind"] for one in series}

    wait_until("power is recorded", lambda: "power" in kinds(), timeout=90)
    assert kinds() <= {"queue", "wait", "power"}
    hours = ada.get("history/nodes").json()
    assert len(hours["at"]) == 24 and "gpu01" in hours["nodes"]
    assert hours["nodes"]["gpu01"]["held"][-1] is not None


def test_lists_as_files(ada: Caller, job: dict[str, Any]) -> None:
    answer = ada.get("jobs.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="jobs.csv"'
    [row] = [row for row in table(answer) if row["id"] == job["id"]]
    assert row["gpus"] == "2"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", row["start_time"])
    assert len(table(ada.get("gpus.csv"))) == 20
    assert len(table(ada.get("gpus.csv", params={"type": "t4"}))) == 4
    assert [row["name"] for row in table(ada.get("nodes.csv", params={"partition": "cpu"}))] == [
        "cpu01",
        "cpu02",
    ]
    assert {"at", "gpus_busy"} <= set(table(ada.get("history.csv", params={"points": 5}))[0])


# -- what is new --------------------------------------------------------------------------------


def test_a_change_comes_by_itself(demo: Any, ada: Caller) -> None:
    with ada.events() as events:
        first = next(events)
        assert first.kind == "reset"
        id_ = submit(demo, "ada", "--hold", "--time=10")
        try:
            for event in events:
                if id_ in event.data.get("jobs", {}):
                    break
            assert event.kind in ("change", "own")
            assert event.id == f"{event.data['stream']}-{event.data['version']}"
        finally:
            demo.run(["scancel", id_])
        for event in events:
            if id_ in event.data.get("gone_jobs", ()):
                break


def test_a_break_is_caught_up(demo: Any, ada: Caller) -> None:
    with ada.events() as events:
        last = next(events)
    id_ = submit(demo, "ada", "--hold", "--time=10")
    wait_until("the job is known", lambda: ada.get(f"jobs/{id_}").is_success)
    try:
        with ada.events(**{"Last-Event-ID": last.id}) as events:
            event = next(events)
            while event.kind == "change" and id_ not in event.data.get("jobs", {}):
                event = next(events)
        assert event.kind in ("change", "own"), "nothing is sent anew"
        assert id_ in event.data["jobs"]
    finally:
        demo.run(["scancel", id_])
    with ada.events(**{"Last-Event-ID": "0123-5"}) as events:
        assert next(events).kind == "reset"


def test_polling_brings_the_same(demo: Any, ada: Caller) -> None:
    board = ada.get("board").json()
    since = {"stream": board["stream"], "version": board["version"]}
    id_ = submit(demo, "ada", "--hold", "--time=10")
    try:
        wait_until("the job is known", lambda: ada.get(f"jobs/{id_}").is_success)
        body = ada.get("changes", params=since).json()
        assert body["reset"] is False
        assert any(id_ in changes["jobs"] for changes in body["changes"])
        assert body["changes"][0]["version"] == board["version"] + 1
        assert (id_ in body["own"]["jobs"]) is demo.people
    finally:
        demo.run(["scancel", id_])
    for wrong in ({"stream": "0123"}, {"version": 10**15}, {"version": board["version"] - 20}):
        if wrong.get("version", 0) < 0:  # the service is younger than that
            continue
        body = ada.get("changes", params=since | wrong).json()
        assert (body["reset"], body["changes"]) == (True, [])


def viewers(grace: Caller) -> float:
    text = grace.metrics().text
    found = re.search(r"^portal_viewers (\S+)$", text, re.M)
    assert found
    return float(found[1])


def test_a_viewer_who_leaves_is_gone(ada: Caller, grace: Caller) -> None:
    before = viewers(grace)
    with ada.events() as events:
        next(events)
        assert viewers(grace) == before + 1
    wait_until("the stream is closed", lambda: viewers(grace) == before)


def test_a_script_of_a_page_needs_the_token_of_the_page(demo: Any) -> None:
    """EventSource and fetch() send the cookie, and say that they are no visit."""
    browser = Person(demo.url, "ada").http
    assert browser.get(SERVICE).status_code == 200
    [xsrf] = [c.value for c in browser.cookies.jar if c.name == "_xsrf" and c.path == SERVICE]
    script = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
    for path in ("events", "board"):
        answer = browser.get(f"{API}{path}", headers=script)
        assert answer.status_code == 403
        assert error_of(answer)["code"] == "not_logged_in"
    assert browser.get(f"{API}board", headers={**script, "X-XSRFToken": xsrf}).is_success
    with browser.stream("GET", f"{API}events", params={"_xsrf": xsrf}, headers=script) as answer:
        assert answer.status_code == 200
        assert next(read_events(answer)).kind == "reset"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-store"


# -- openapi.json and metrics -------------------------------------------------------------------


def test_the_api_describes_itself(ada: Caller) -> None:
    document = ada.get("openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": "/services/portal/api/v1"}]
    assert {"/jobs", "/nodes/{node}", "/events", "/openapi.json"} <= set(document["paths"])


def test_metrics(ada: Caller, grace: Caller) -> None:
    assert scope.METRICS_READ in error_of(ada.metrics())["message"]
    answer = grace.metrics()
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    for name in (
        "portal_up 1.0",
        "portal_slurm_up 1.0",
        "portal_database_up 1.0",
        'portal_sessions{state="running"}',
        'portal_slurm_commands_total{command="squeue"}',
        'portal_slurm_command_seconds_total{command="squeue"}',
        'portal_request_seconds_count{method="GET",route="board",status="2xx"}',
        "portal_refresh_seconds",
        "process_resident_memory_bytes",
    ):
        assert name in answer.text, name
    [age] = re.findall(r"^portal_watcher_age_seconds (\S+)$", answer.text, re.M)
    assert 0 <= float(age) < 30
    # Prometheus says "Bearer", and asks for its own format.
    answer = grace.metrics(
        Authorization=f"Bearer {grace.person.token}",
        Accept="application/openmetrics-text; version=1.0.0; charset=utf-8",
    )
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_one_token_of_prometheus_reads_both_metrics_and_no_more(grace: Caller) -> None:
    scopes = ["read:metrics", "access:services!service=portal"]
    answer = grace.person.api("POST", "/users/grace/tokens", {"scopes": scopes})
    assert answer.status_code == 201, answer.text
    service = f"{grace.person.url}{SERVICE}"
    hub = f"{grace.person.url}/hub/metrics"
    with httpx.Client(trust_env=False, follow_redirects=False) as prometheus:
        for address in (f"{service}metrics", hub):
            assert prometheus.get(address).status_code in (302, 403)
        prometheus.headers["Authorization"] = f"Bearer {answer.json()['token']}"
        of_service, of_hub = prometheus.get(f"{service}metrics"), prometheus.get(hub)
        refused = prometheus.get(f"{service}api/v1/audit")
    assert (of_service.status_code, of_hub.status_code) == (200, 200)
    assert refused.status_code == 403
    for name in (
        'portal_works{kind="jupyterlab",state="running"}',
        'portal_disk_free_bytes{folder="session_logs"}',
        'portal_catalog_environments{verdict="failed"}',
        "portal_event_loop_lag_seconds_count",
        "portal_gateway_up 1.0",
        'portal_endpoints{state="ready"}',
    ):
        assert name in of_service.text, name
    for name in (
        'portal_launches_total{kind="jupyterlab",outcome="ready"}',
        'portal_ldap_request_seconds_count{outcome="answered"}',
        "portal_ldap_certificate_expiry_timestamp_seconds{server=",
        "portal_database_query_seconds_count",
    ):
        assert name in of_hub.text, name


def test_a_request_cannot_make_labels(ada: Caller, grace: Caller) -> None:
    ada.get("jobs/424242")
    ada.get(f"{ada.person.url}{SERVICE}made-up-address")
    ada.request("PURGE", "jobs")
    text = grace.metrics().text
    for word in ("424242", "made-up-address", "PURGE"):
        assert word not in text


# -- the end ------------------------------------------------------------------------------------


def ended(process: psutil.Process) -> bool:
    """Whether it is gone; the Hub looks after its services every 30 seconds only."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_restart_ends_streams_cleanly_and_is_noticed(demo: Any, ada: Caller) -> None:
    """The Hub starts its service again; viewers are told to begin anew."""
    port = json.loads((demo.home.demo / "ports.json").read_text())["service"]
    [pid] = {
        c.pid
        for c in psutil.net_connections("tcp")
        if c.laddr.port == port and c.status == "LISTEN"
    }
    log = demo.home.log / "hub.out"
    before = log.stat().st_size
    with ada.events() as events:
        last = next(events)
        process = psutil.Process(pid)
        process.terminate()
        assert all(event.kind != "reset" for event in events)  # it ends, and is not cut off
    wait_until("it has ended", lambda: ended(process))
    wait_until("the service is back", lambda: ada.get("board").is_success, timeout=240)
    with ada.events(**{"Last-Event-ID": last.id}) as events:
        first = next(events)
    assert first.kind == "reset"
    assert first.data["stream"] != last.data["stream"]
    said = log.read_bytes()[before:].decode()
    assert "Traceback" not in said, said
