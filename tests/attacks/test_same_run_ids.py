"""Runs of the same id: sessions choose the ids, so a colleague who knows that of a shared run can
start one of the same id, which must not stand in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from clusters import snapshot
from fake_hub import FakeHub
from session_endpoints import parts_on, person, said, served
from test_run_again import Catalog

from portal.models.session.run import PointState, Run, RunPoint
from portal.store import Store
from portal.work.run.endpoints import again, comparison, curves, record, runs, shares, values
from portal.work.run.pages import RunPage
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
TOKENS = {name: person(name) for name in ("ada", "grace", "mallory")}
RUN = Run(
    id=ID, name="shared", source="train.py", folder="/home/ada/runs/shared", points=1,
    code_digest=f"sha256:{'a' * 64}", user="ada", server="run-5e2f3c1a0b7d4c8e9a6f",
    environment="torch", created_at=5.0, ended_at=9.0,
)  # fmt: skip
READ = ("", "/points", "/points/0", "/points.csv", "/values", "/curves?curve=loss", "/repetitions")


@pytest.fixture
async def ask(store: Store) -> AsyncIterator[object]:
    """Ask as a user. Mallory shares a run of the same id with Grace, and did so before Ada."""

    async def refreshed() -> None:
        pass

    view = SimpleNamespace(sessions={}, jobs={}, snapshot=snapshot())
    dashboard = SimpleNamespace(view=view, refreshed=refreshed)
    parts = parts_on(store, dashboard=dashboard, hub=FakeHub(), catalog=Catalog())
    for user in ("mallory", "ada"):
        folder = f"/home/{user}/runs/shared"
        update = {"user": user, "name": f"of-{user}", "folder": folder}
        await store.table(RunTable).add_run(RUN.model_copy(update=update))
        await store.table(RunShareTable).share(user, ID, "grace")
        point = RunPoint(number=0, state=PointState.SUCCEEDED, attempt=1, message=user)
        await store.table(RunPointTable).save([((user, ID), point)])
    modules = (again, comparison, curves, record, runs, shares, values)
    kinds = [each for module in modules for each in module.ENDPOINTS]
    async with served(kinds, parts, TOKENS.get, logins=True) as client:

        async def ask(path: str, user: str = "grace", method: str = "GET") -> httpx.Response:
            headers = {"Authorization": f"token {user}", "Content-Type": "application/json"}
            return await client.request(method, path, headers=headers)

        yield ask


@pytest.mark.parametrize("path", READ)
async def test_a_shared_run_is_its_owner_s(ask: object, path: str) -> None:
    with_owner = f"{path}{'&' if '?' in path else '?'}owner="
    for owner in ("ada", "mallory"):
        answer = await ask(f"runs/{ID}{with_owner}{owner}")  # type: ignore[operator]
        assert answer.status_code == 200, answer.text
        other = {"ada": "mallory", "mallory": "ada"}[owner]
        assert other not in answer.text
    for owner in ("", "grace", "carol"):
        answer = await ask(f"runs/{ID}{with_owner}{owner}")  # type: ignore[operator]
        assert answer.status_code == 404, "without its owner, it is none of hers"


async def test_one_s_own_is_another_one(ask: object, store: Store) -> None:
    await store.table(RunTable).add_run(
        RUN.model_copy(update={"user": "grace", "name": "of-grace"})
    )
    for owner, name in (("", "of-grace"), ("grace", "of-grace"), ("ada", "of-ada")):
        answer = await ask(f"runs/{ID}?owner={owner}")  # type: ignore[operator]
        assert (answer.json()["name"], answer.json()["mine"]) == (name, name == "of-grace")
    answer = await ask(f"run-comparison?a={ID}&b=ada/{ID}&c=mallory/{ID}")  # type: ignore[operator]
    assert [run["name"] for run in answer.json()["runs"]] == ["of-grace", "of-ada", "of-mallory"]
    answer = await ask(f"run-comparison?a={ID}&b=carol/{ID}")  # type: ignore[operator]
    assert answer.status_code == 404


async def test_what_is_repeated_is_the_owner_s(ask: object, store: Store) -> None:
    path = f"runs/{ID}/repetitions?owner=ada"
    assert (await ask(path)).json()["author"] == "ada"  # type: ignore[operator]
    answer = await ask(path, method="POST")  # type: ignore[operator]
    assert answer.status_code == 202, answer.text
    new = await store.table(RunTable).get("grace", answer.json()["id"])
    assert new is not None and new.origin is not None
    assert (new.origin.user, new.code_digest) == ("ada", RUN.code_digest)
    # Of a repetition of hers, the code is still Ada's.
    await store.table(RunTable).end("grace", new.id, 9.0)
    await store.table(RunTable).note_folder("grace", new.id, "/home/grace/runs/of-ada-2")
    answer = await ask(f"runs/{new.id}/repetitions")  # type: ignore[operator]
    assert answer.json()["author"] == "ada"
    # After the end of the share, nothing of Ada's is started.
    await store.table(RunShareTable).unshare("ada", ID, "grace")
    answer = await ask(path, method="POST")  # type: ignore[operator]
    assert (answer.status_code, said(answer)) == (404, "You have no such run.")


async def test_code_of_an_older_run_is_not_taken_for_its_own(ask: object, store: Store) -> None:
    await store.table(RunTable).remove("ada", ID)
    await store.table(RunTable).add_run(RUN.model_copy(update={"code_digest": ""}))
    answer = await ask(f"runs/{ID}/repetitions?owner=ada", method="POST")  # type: ignore[operator]
    assert answer.status_code == 403 and "Ask ada to start a new run" in said(answer)


def test_the_page_has_the_owner() -> None:
    template = Path(__file__).parents[2] / "templates/portal/run.html"
    assert RunPage.template == template.name and 'data-owner="{{ run_owner }}"' in (
        template.read_text()
    )
