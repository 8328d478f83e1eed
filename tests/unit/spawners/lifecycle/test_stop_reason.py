"""Why a service stops a session: what the Hub believes, from whom, and what the ending says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import record
from jupyterhub import orm
from jupyterhub.utils import utcnow
from tornado.httputil import HTTPHeaders
from tornado.web import HTTPError
from traitlets import TraitError
from traitlets.config import Config

from portal.models.cluster.cluster import Job, JobState
from portal.models.session.session import SessionRecord
from portal.models.session.stop_reason import REASON_HEADER, StopCode, StopReason
from portal.sessions.ending import TITLES, Ending, explain, words_for
from spawners.lifecycle import culler, stop_reason
from spawners.lifecycle.reconciler import ended

IDLE = StopReason(code=StopCode.IDLE, words="The session's GPUs were idle for 2 h.")
REPAIR = StopReason(code=StopCode.STOPPED, words="gpu01 is repaired")


def handler(who: Any, db: Any = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = SimpleNamespace(headers=HTTPHeaders(named))
    return SimpleNamespace(current_user=who, request=request, db=db)


def service(name: str) -> orm.Service:
    return orm.Service(name=name)


# -- what travels ---------------------------------------------------------------------------------


def test_a_reason_travels_as_one_plain_header() -> None:
    header = IDLE.header()
    assert header.isascii() and header.isprintable() and " " not in header
    assert StopReason.read(header) == IDLE


@pytest.mark.parametrize(
    "header",
    [
        "",
        "idle",
        "%00",
        '{"code":"idle"}',
        '{"code":"walltime","words":"x"}',
        '{"code":"idle","words":""}',
        '{"code":"idle","words":"two\\nlines"}',
        '{"code":"idle","words":"a \\u202e trick"}',
        '{"code":"idle","words":"x","more":1}',
        '{"code":"idle","words":"' + "x" * 301 + '"}',
        '{"code":"idle","words":"' + "x" * 100_000 + '"}',
        "\udcff",
    ],
)
def test_what_is_no_reason_is_none(header: str) -> None:
    assert StopReason.read(header) is None


def test_every_code_has_a_title() -> None:
    assert set(StopCode) <= set(TITLES)


# -- who is believed ------------------------------------------------------------------------------


def test_only_the_portals_service_says_why_and_only_for_itself() -> None:
    said = {REASON_HEADER.replace("-", "_"): IDLE.header()}
    assert stop_reason.reason_of(handler(service("portal"), **said)) == IDLE
    assert stop_reason.reason_of(handler(service("portal"))) is None
    assert stop_reason.reason_of(handler(service("portal"), X_Portal_For="ada", **said)) is None
    assert stop_reason.reason_of(handler(service("another"), **said)) is None
    assert stop_reason.reason_of(handler(SimpleNamespace(name="portal"), **said)) is None, (
        "a person"
    )
    assert stop_reason.reason_of(handler(None, **said)) is None


def test_another_users_reason_is_believed_only_with_that_user() -> None:
    said = {REASON_HEADER.replace("-", "_"): REPAIR.header()}
    assert stop_reason.reason_of(handler(service("portal"), X_Portal_For="grace", **said)) == REPAIR
    assert stop_reason.reason_of(handler(service("portal"), **said)) is None
    assert stop_reason.reason_of(handler(service("another"), X_Portal_For="grace", **said)) is None


@pytest.fixture
def users() -> Iterator[Any]:
    """The Hub's database with ada and grace in it."""
    session = orm.new_session_factory("sqlite:///:memory:")()
    session.add_all([orm.User(name="ada"), orm.User(name="grace")])
    session.commit()
    yield session
    session.close()


@pytest.mark.parametrize(
    "name", ["", "nobody-of-that-name", "%00<script>", "grace%0d%0aX: 1", "grace%00", "Grace "]
)
def test_a_name_that_is_nobodys_is_the_services_own_request(users: Any, name: str) -> None:
    assert stop_reason.asked_by(handler(service("portal"), users, X_Portal_For=name)) == "portal"


def test_only_the_portals_service_says_for_whom_it_asks(users: Any) -> None:
    for_grace = {"X_Portal_For": "grace"}
    assert stop_reason.asked_by(handler(service("portal"), users, **for_grace)) == "grace"
    assert stop_reason.asked_by(handler(service("another"), users, **for_grace)) == "another"
    ada = orm.User.find(users, "ada")
    assert stop_reason.asked_by(handler(ada, users, **for_grace)) == "ada"
    assert stop_reason.asked_by(handler(None, users, **for_grace)) == ""


def test_the_culler_has_one_reason() -> None:
    found = stop_reason.reason_of(handler(service("idle-culler"), X_Portal_Reason=IDLE.header()))
    assert found == stop_reason.CULLED
    assert stop_reason.reason_of(handler(SimpleNamespace(name="idle-culler"))) is None, "a person"


def why_ended(why: StopReason | None, by: str = "portal") -> Ending:
    return stop_reason.reason(
        by, "ada", ready=True, answers=True, came_back=False, http_timeout=1, why=why
    )


def test_the_ending_says_it() -> None:
    assert why_ended(IDLE) == Ending(code="idle", message=IDLE.words, by="portal")
    assert why_ended(None, "grace").message == "An administrator (grace) stopped the session."


def a_record(code: str = "idle", by: str = "portal") -> SessionRecord:
    ending = {"ending_code": code, "ending_message": IDLE.words, "stopped_by": by}
    return record("s", "7", submitted_at=1.0, ready_at=2.0, **ending)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.COMPLETED, JobState.FAILED])
def test_it_is_kept_when_the_job_has_ended(state: JobState) -> None:
    job = Job(id="7", state=state, nodes=("gpu01",), end_time=9.0)
    over = ended(a_record(), job, explain(job, "", stopped=True, stopped_by="portal", owner="ada"))
    assert (over.state, over.ending_code, over.stopped_by) == ("ended", "idle", "portal")
    assert words_for(over, "ada") == words_for(over, "grace") == IDLE.words


def test_what_slurm_says_comes_first() -> None:
    job = Job(id="7", state=JobState.NODE_FAIL, nodes=("gpu01",), end_time=9.0)
    over = ended(a_record(), job, explain(job, "", stopped=True, stopped_by="portal", owner="ada"))
    assert over.ending_code == "node_failure"


def test_an_ordinary_stop_is_as_it_was() -> None:
    job = Job(id="7", state=JobState.CANCELLED, nodes=("gpu01",), end_time=9.0)
    stopped = a_record("stopped", "ada")
    over = ended(stopped, job, explain(job, "", stopped=True, stopped_by="ada", owner="ada"))
    assert (over.ending_code, words_for(over, "ada")) == ("stopped", "You stopped the session.")


def test_the_owner_reads_the_reason_of_an_admin() -> None:
    ending = why_ended(REPAIR, "grace")
    told = "An administrator (grace) stopped the session: gpu01 is repaired"
    assert (ending.code, ending.message) == ("stopped", told)
    job = Job(id="7", state=JobState.CANCELLED, nodes=("gpu01",), end_time=9.0)
    stopped = a_record("stopped", "grace").model_copy(update={"ending_message": ending.message})
    over = ended(stopped, job, explain(job, "", stopped=True, stopped_by="grace", owner="ada"))
    assert words_for(over, "ada") == told
    assert words_for(over, "grace") == "You stopped the session: gpu01 is repaired"


# -- the idle culler ------------------------------------------------------------------------------


def user_heard(ago: float | None, token_id: int = 5) -> Any:
    """A user whose session's token was used ``ago`` seconds ago; None: there is no such token."""
    at = None if ago is None else utcnow(with_tz=False) - timedelta(seconds=ago)
    token = None if at is None else SimpleNamespace(last_activity=at, created=at)
    spawner = SimpleNamespace(token_id=token_id)
    return SimpleNamespace(
        spawners={"": spawner}, db=SimpleNamespace(get=lambda kind, number: token)
    )


@pytest.mark.parametrize("ago", [0, 300, 890])
def test_a_session_that_reports_may_be_culled(ago: float) -> None:
    culler.refuse_for_silence(user_heard(ago), "")


@pytest.mark.parametrize("ago", [910, 86_400, None])
def test_a_silent_session_is_not_culled(ago: float | None) -> None:
    with pytest.raises(HTTPError) as refused:
        culler.refuse_for_silence(user_heard(ago), "")
    assert refused.value.status_code == 409
    assert "does not report" in str(refused.value.log_message)


def test_what_is_not_there_is_the_hubs_own_answer() -> None:
    culler.refuse_for_silence(None, "")
    culler.refuse_for_silence(user_heard(None), "no-such-server")
    culler.refuse_for_silence(user_heard(None, token_id=0), "")


def test_a_kernel_in_a_job_of_its_own_is_not_culled() -> None:
    user = SimpleNamespace(spawners={"kernel-12345678": SimpleNamespace(serves=False)})
    with pytest.raises(HTTPError, match="A kernel is not stopped as idle"):
        culler.refuse_for_silence(user, "kernel-12345678")


def test_a_network_cut_for_five_minutes_is_less_than_any_timeout() -> None:
    """What the Hub believes of a session that works all the time is at most one interval and the
    outage old; that is far from the shortest time that a site can set."""
    interval, jitter, outage, retries = 300, 1.1, 300, 60
    assert interval * jitter + outage + retries < culler.SILENT < culler.LEAST


@pytest.mark.parametrize("timeout", [1, 600, culler.LEAST - 1])
def test_a_timeout_that_is_too_short_is_refused_with_the_reason(timeout: int) -> None:
    with pytest.raises(TraitError, match="must be 0 or at least 1800 s"):
        culler.IdleSessions(config=Config({"IdleSessions": {"timeout": timeout}}))


class Hub:
    """JupyterHub as far as the culler is offered to it."""

    def __init__(self, internal_ssl: bool = False, **settings: Any) -> None:
        self.config = Config({"IdleSessions": settings})
        self.services: list[Any] = [{"name": "portal"}]
        self.load_roles: list[Any] = [{"name": "portal-admin"}]
        self.internal_ssl, self.internal_certs_location = internal_ssl, "internal-ssl"
        culler._configured(SimpleNamespace(owner=self))


def test_the_culler_is_off_by_default() -> None:
    hub = Hub()
    assert [one["name"] for one in hub.services] == ["portal"]
    assert [one["name"] for one in hub.load_roles] == ["portal-admin"]


def test_the_culler_runs_where_the_site_wants_it() -> None:
    hub = Hub(timeout=7200, max_age=86400)
    command = hub.services[1]["command"]
    assert command[1:] == [
        "-m",
        "jupyterhub_idle_culler",
        "--config=",
        "--timeout=7200",
        "--cull-every=600",
        "--max-age=86400",
    ]
    role = hub.load_roles[1]
    assert role["services"] == ["idle-culler"]
    assert role["scopes"] == [
        "list:users", "read:users:activity", "read:servers", "delete:servers"
    ]  # fmt: skip
    assert not any("cull-users" in word for word in command)


def test_the_culler_speaks_tls_inside() -> None:
    command = Hub(internal_ssl=True, timeout=7200).services[1]["command"]
    assert "--ssl-enabled=True" in command
    assert f"--internal-certs-location={Path('internal-ssl').resolve()}" in command
