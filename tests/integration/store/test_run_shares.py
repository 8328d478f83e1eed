"""Who sees which runs, in each database."""

from __future__ import annotations

from portal.models.session.run import Run
from portal.store import Store
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable, Viewer


def a_run(user: str, number: int, project: str = "", **more: object) -> Run:
    return Run.model_validate({
        "id": f"{number:08x}", "name": f"run-{number}", "source": "a.py", "folder": "/home/x/a",
        "points": 1, "user": user, "server": f"run-{number}", "environment": "lab",
        "created_at": float(number), "project": project, **more,
    })  # fmt: skip


async def test_runs_are_shown_to_those_who_may_see_them(store: Store) -> None:
    runs, shares = store.table(RunTable), store.table(RunShareTable)
    for run in (
        a_run("ada", 1, "deep"), a_run("ada", 2), a_run("bob", 3, "deep", ended_at=9.0),
        a_run("bob", 4, "other"), a_run("bob", 1), a_run("ada", 5),
    ):  # fmt: skip
        await runs.add_run(run)
    await shares.share_with("ada", "00000002", "project", "deep")
    await shares.share_with("ada", "00000002", "project", "deep")
    await shares.share_with("bob", "00000004", "group", "deep")
    await shares.share("ada", "00000005", "eve")

    async def seen(viewer: Viewer, **page: int) -> list[tuple[str, int]]:
        found, total = await shares.with_user(viewer, **page)
        assert total >= len(found)
        for run in found:
            assert await shares.get(viewer, run.user, run.id) == run
        return [(run.user, int(run.id, 16)) for run in found]

    assert await seen(Viewer("eve")) == [("ada", 5)]
    both = Viewer("eve", ["deep"], ["deep"])
    assert await seen(both) == [("ada", 5), ("bob", 4), ("bob", 3), ("ada", 2), ("ada", 1)]
    assert await seen(both, offset=1, limit=2) == [("bob", 4), ("bob", 3)]
    assert await seen(Viewer("ada", ["deep"])) == [("bob", 3)], "one's own are in another list"
    assert await seen(Viewer("carol", ["none"], ["none"])) == []
    # An id is another run for another owner.
    assert await shares.get(both, "bob", "00000001") is None
    assert await shares.get(Viewer("eve"), "ada", "00000001") is None
    found, total = await shares.of_project("deep", limit=2)
    assert ([run.id[-1] for run in found], total) == (["3", "2"], 3)
    assert [run.id[-1] for run in (await shares.of_project("deep", user="ada"))[0]] == ["2", "1"]
    assert [run.id[-1] for run in (await shares.of_project("deep", state="ended"))[0]] == ["3"]
    assert await shares.users_of("deep") == ["ada", "bob"]
    assert await shares.of_project("") == ([], 0)
    # What is deleted or no longer shared is shown to nobody.
    assert await shares.unshare_with("ada", "00000002", "project", "deep")
    assert not await shares.unshare_with("ada", "00000002", "project", "deep")
    await runs.end("bob", "00000004", 9.0)
    await store.table(RunPointTable).remove("bob", "00000004")
    assert await seen(both) == [("ada", 5), ("bob", 3), ("ada", 1)]
    assert await shares.teams("bob", "00000004") == []
